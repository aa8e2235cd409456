//! CPU time and memory of the server, as the kernel counts them (proc(5)). Zeros where there is no `/proc`.

use anyhow::Context as _;
use std::fs;
use std::net::SocketAddr;

/// Clock ticks a second in `/proc/stat` and `/proc/PID/stat`: constant in the kernel's interface on all common
/// architectures.
const TICKS_PER_SECOND: f64 = 100.0;
/// State of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// Processes whose figures are read: what `--pid` says, with `auto` looked up for an address of this machine.
///
/// # Errors
/// Text that is no list of process ids, or an id that no process has.
pub(crate) fn chosen(text: &str, address: SocketAddr) -> anyhow::Result<Vec<u32>> {
    match text {
        "none" => Ok(Vec::new()),
        "auto" if address.ip().is_loopback() => Ok(listening_on(address.port())),
        "auto" => Ok(Vec::new()),
        list => list
            .split(',')
            .map(|id| {
                let id: u32 = id.trim().parse().with_context(|| {
                    format!("--pid {list}: {id} is no process id; use a number, `auto` or `none`")
                })?;
                anyhow::ensure!(
                    cfg!(not(target_os = "linux")) || fs::exists(format!("/proc/{id}")).unwrap_or(false),
                    "--pid {list}: no process {id} runs on this machine"
                );
                Ok(id)
            })
            .collect(),
    }
}

/// Processes that have a listening TCP socket on `port`, as far as this user may see.
fn listening_on(port: u16) -> Vec<u32> {
    let local_suffix = format!(":{port:04X}");
    let mut sockets = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [_, local, _, LISTENING, _, _, _, _, _, inode, ..] = fields[..]
                && local.ends_with(&local_suffix)
            {
                sockets.push(format!("socket:[{inode}]"));
            }
        }
    }
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|id| holds_one_of(*id, &sockets))
        .collect()
}

fn holds_one_of(id: u32, sockets: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{id}/fd")) else { return false };
    descriptors
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))
}

/// What processes have used up so far, and hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// User and system time of all threads, ended ones included.
    pub(crate) cpu_s: f64,
    pub(crate) system_s: f64,
    pub(crate) rss_bytes: u64,
    pub(crate) rss_peak_bytes: u64,
    pub(crate) threads: u64,
    /// Caused to be written to storage.
    pub(crate) written_bytes: u64,
}

impl Sample {
    /// Reads the figures of all `pids` and adds them up; a process that is gone adds nothing.
    pub(crate) fn of(pids: &[u32]) -> Self {
        let mut sum = Self::default();
        for &pid in pids {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // The name before it is in brackets and may hold blanks.
            let fields: Vec<&str> =
                stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split_whitespace().collect();
            let ticks =
                |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
            let (user_s, system_s) = (ticks(11) / TICKS_PER_SECOND, ticks(12) / TICKS_PER_SECOND);
            sum.cpu_s += cpu_clock_s(pid).unwrap_or(user_s + system_s);
            sum.system_s += system_s;
            sum.threads += ticks(17) as u64;
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            sum.rss_bytes += field(&status, "VmRSS:") * 1024;
            sum.rss_peak_bytes += field(&status, "VmHWM:") * 1024;
            let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            sum.written_bytes += field(&io, "write_bytes:");
        }
        sum
    }
}

fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// CPU time of a process by its own clock, which counts nanoseconds where `/proc/PID/stat` counts hundredths.
#[cfg(target_os = "linux")]
fn cpu_clock_s(pid: u32) -> Option<f64> {
    use nix::time::{clock_getcpuclockid, clock_gettime};
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).ok()?);
    let time = clock_gettime(clock_getcpuclockid(pid).ok()?).ok()?;
    Some(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

#[cfg(not(target_os = "linux"))]
fn cpu_clock_s(_pid: u32) -> Option<f64> {
    None
}

/// CPU time of this process.
pub(crate) fn own_cpu_s() -> f64 {
    cpu_clock_s(std::process::id()).unwrap_or(0.0)
}

/// CPU time of the whole machine.
#[derive(Clone, Copy, Default)]
pub(crate) struct MachineTime {
    /// Spent on anything: user, nice, system, interrupts.
    pub(crate) busy_s: f64,
    /// Taken by other guests of its host. The clocks of its processes may or may not go on meanwhile.
    pub(crate) stolen_s: f64,
}

/// What the whole machine has spent since it started.
pub(crate) fn machine_time() -> MachineTime {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<f64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|text| text.parse().ok())
        .collect();
    match ticks[..] {
        [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] => {
            let busy = user + nice + system + irq + softirq;
            MachineTime { busy_s: busy / TICKS_PER_SECOND, stolen_s: steal / TICKS_PER_SECOND }
        }
        _ => MachineTime::default(),
    }
}

/// Lets this process open as many files as the system allows it; returns how many.
pub(crate) fn raise_open_files() -> Option<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok()?;
    Some(hard)
}
