//! What the machine, or the container the process runs in, has.

use crate::config::ByteSize;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The limit on memory where none can be found out.
const MEMORY_BYTES_DEFAULT: u64 = 1 << 30;

/// The limit in force for a configured one: 0 stands for half of the memory there is.
pub(crate) fn memory_max(configured: ByteSize) -> usize {
    let bytes = match configured.0 {
        0 => memory_bytes(&|path| fs::read_to_string(path).ok())
            .map_or(MEMORY_BYTES_DEFAULT, |bytes| bytes / 2),
        bytes => bytes,
    };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Reads a file of the operating system; `None` if there is no such file.
type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// The memory there is, in bytes: the machine's, or less if a control group of the process has a limit. `None` where
/// the operating system does not say it in files.
fn memory_bytes(read: Read<'_>) -> Option<u64> {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| total_of(&text));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let limits = mounts.lines().filter_map(Hierarchy::of_mount).filter_map(|hierarchy| {
        let own = groups.lines().find_map(|line| hierarchy.group_of(line))?;
        hierarchy.least_limit(own, read)
    });
    machine.into_iter().chain(limits).min()
}

/// A mounted tree of control groups that can limit memory.
struct Hierarchy<'a> {
    mounted_at: &'a str,
    /// The group that the mount point stands for: `/`, or the container's own.
    root: &'a str,
    version: Version,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    /// One tree for memory alone, beside those of other resources; a tree of version 2 may stand beside them.
    One,
    /// One tree for everything.
    Two,
}

impl<'a> Hierarchy<'a> {
    /// Out of a line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)); `None` for mounts of anything else.
    ///
    /// ```text
    /// 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
    ///            root  mounted at        any number  -  type  source options
    /// ```
    fn of_mount(line: &'a str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, mounted_at) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let version = match (kind.next()?, kind.nth(1)?) {
            ("cgroup2", _) => Version::Two,
            ("cgroup", options) if options.split(',').any(|option| option == "memory") => Version::One,
            _ => return None,
        };
        Some(Self { mounted_at, root, version })
    }

    /// The process's group in this tree, if a line of `/proc/self/cgroup` (cgroups(7)) names it: `4:memory:/group`, or
    /// `0::/group` in version 2.
    fn group_of<'b>(&self, line: &'b str) -> Option<&'b str> {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
        let is_own = match self.version {
            Version::One => controllers.split(',').any(|controller| controller == "memory"),
            Version::Two => number == "0" && controllers.is_empty(),
        };
        is_own.then_some(group)
    }

    /// The least limit of a group and of those it is in, up to the mount point. A group that cannot be seen from here
    /// is in the one that the mount point stands for.
    fn least_limit(&self, group: &str, read: Read<'_>) -> Option<u64> {
        let below = Path::new(group).strip_prefix(self.root).unwrap_or_else(|_| Path::new(""));
        let is_below = below.components().all(|part| matches!(part, Component::Normal(_)));
        let own =
            if is_below { Path::new(self.mounted_at).join(below) } else { PathBuf::from(self.mounted_at) };
        let files: &[&str] = match self.version {
            Version::One => &["memory.limit_in_bytes"],
            // Above the second the kernel slows the process down until it holds less.
            Version::Two => &["memory.max", "memory.high"],
        };
        own.ancestors()
            .take_while(|directory| directory.starts_with(self.mounted_at))
            .flat_map(|directory| files.iter().map(move |file| directory.join(file)))
            // `max` stands for none.
            .filter_map(|path| read(&path)?.trim().parse().ok())
            // Set for a moment to have the kernel take memory back.
            .filter(|&bytes| bytes > 0)
            .min()
    }
}

/// `MemTotal:  16315536 kB` in bytes.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MEMINFO: &str = "MemTotal:       16777216 kB\nMemFree:         1035524 kB\n";
    const V1: &str = "30 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n";
    const V2: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    /// What there is for a process in `groups`, with these files besides.
    fn bytes_with(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<u64> {
        let system =
            [("/proc/meminfo", MEMINFO), ("/proc/self/cgroup", groups), ("/proc/self/mountinfo", mounts)];
        let all: Vec<_> = system.iter().chain(files).collect();
        memory_bytes(&|path| {
            let found = all.iter().find(|(name, _)| Path::new(name) == path)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn the_machines_memory_is_read_in_kib() {
        assert_eq!(total_of(MEMINFO), Some(16 * GIB));
        assert_eq!(total_of("MemFree: 5 kB"), None);
        assert_eq!(memory_bytes(&|_| None), None);
    }

    #[test]
    fn the_least_limit_of_the_own_group_and_its_parents_counts() {
        let limits = |own, parent, machine| {
            let files = [
                ("/sys/fs/cgroup/system.slice/meridian.service/memory.max", own),
                ("/sys/fs/cgroup/system.slice/memory.max", parent),
                ("/sys/fs/cgroup/memory.max", machine),
                ("/sys/fs/cgroup/other.slice/memory.max", "1\n"),
            ];
            bytes_with("0::/system.slice/meridian.service\n", V2, &files)
        };
        assert_eq!(limits("2147483648\n", "max\n", "max\n"), Some(2 * GIB));
        assert_eq!(limits("2147483648\n", "1073741824\n", "max\n"), Some(GIB));
        assert_eq!(limits("max\n", "max\n", "3221225472\n"), Some(3 * GIB));
        assert_eq!(limits("max\n", "max\n", "max\n"), Some(16 * GIB));
    }

    #[test]
    fn where_version_2_slows_a_process_down_is_a_limit_too() {
        let files =
            [("/sys/fs/cgroup/a/memory.max", "max\n"), ("/sys/fs/cgroup/a/memory.high", "1073741824\n")];
        assert_eq!(bytes_with("0::/a\n", V2, &files), Some(GIB));
    }

    #[test]
    fn version_1_has_a_tree_for_memory_also_beside_version_2() {
        let hybrid = format!("{V1}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
        let groups = "12:cpu,cpuacct:/elsewhere\n4:memory:/docker/7\n0::/\n";
        let none = "9223372036854771712\n";
        let files = [
            ("/sys/fs/cgroup/memory/docker/7/memory.limit_in_bytes", "1073741824\n"),
            ("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", none),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", none),
        ];
        assert_eq!(bytes_with(groups, &hybrid, &files), Some(GIB));
        assert_eq!(bytes_with(groups, &hybrid, &files[1..]), Some(16 * GIB));
    }

    #[test]
    fn a_container_that_sees_its_own_group_as_the_root_finds_the_limit_there() {
        let mounted = V1.replace(" / /sys/fs/cgroup/memory", " /docker/7 /sys/fs/cgroup/memory");
        let files = [
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n"),
            ("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "1073741824\n"),
        ];
        assert_eq!(bytes_with("4:memory:/docker/7\n", &mounted, &files), Some(2 * GIB));
        assert_eq!(bytes_with("4:memory:/docker/7/inner\n", &mounted, &files), Some(GIB));
        // Paths that lead out of what can be seen.
        for group in ["4:memory:/docker/8\n", "4:memory:/../inner\n", "4:memory:/docker/7/../inner\n"] {
            assert_eq!(bytes_with(group, &mounted, &files), Some(2 * GIB), "{group}");
        }
        let seen = [("/sys/fs/cgroup/memory.max", "1073741824\n"), ("/memory.max", "1\n")];
        assert_eq!(bytes_with("0::/\n", V2, &seen), Some(GIB));
        assert_eq!(bytes_with("0::/../other\n", V2, &seen), Some(GIB));
    }

    #[test]
    fn a_configured_limit_counts_as_it_is_and_none_means_a_part_of_what_there_is() {
        assert_eq!(memory_max(ByteSize(123)), 123);
        let half = memory_max(ByteSize(0));
        assert!(half > 16 << 20, "{half}");
        if let Some(bytes) = memory_bytes(&|path| fs::read_to_string(path).ok()) {
            assert_eq!(half as u64, bytes / 2);
        }
    }
}
