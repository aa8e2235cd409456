//! One run from set-up to drain, watched from a thread that does nothing else.

use super::plan::{Course, Plan};
use super::process::{self, Sample};
use super::settings::Settings;
use super::stats::{Counters, Phase, Shared, Stats, histogram};
use super::worker::Worker;
use anyhow::Context as _;
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often counters are looked at while something is waited for.
const LOOK: Duration = Duration::from_millis(1);
/// How often while a fixed time passes.
const TICK: Duration = Duration::from_millis(100);
/// The set-up has stalled if no connection and no subscription was added for so long.
const SET_UP_STALL: Duration = Duration::from_secs(20);
/// A storm may take so many times --duration.
const STORM_PATIENCE: u32 = 10;
/// Besides one per connection: standard streams, event queues, timers.
const OTHER_FILES: u64 = 32;

/// What a run showed.
pub(crate) struct Measured {
    pub(crate) settings: Arc<Settings>,
    pub(crate) mode: &'static str,
    pub(crate) shape: String,
    pub(crate) publishers: usize,
    pub(crate) subscribers: usize,
    pub(crate) connections: usize,
    pub(crate) filters: usize,
    pub(crate) course: Course,
    /// Until all connections and subscriptions stood.
    pub(crate) set_up_s: f64,
    /// The measurement proper.
    pub(crate) seconds: f64,
    /// During the measurement.
    pub(crate) counted: Counters,
    /// From the beginning to the end of the drain.
    pub(crate) total: Counters,
    /// Messages that should have been delivered in all.
    pub(crate) expected: u64,
    pub(crate) latency: Histogram<u64>,
    pub(crate) ack_latency: Histogram<u64>,
    pub(crate) handshake: Histogram<u64>,
    /// Before the first connection, with all of them, around the measurement, at the end.
    pub(crate) server: Samples,
    pub(crate) generator_cpu_s: f64,
    /// What other processes and other guests of the machine's host took.
    pub(crate) other_cpu_s: f64,
    pub(crate) troubles: Vec<String>,
}

/// The server at the turning points of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Samples {
    pub(crate) before: Sample,
    pub(crate) set_up: Sample,
    pub(crate) measure_start: Sample,
    pub(crate) measure_end: Sample,
    pub(crate) end: Sample,
}

/// Runs `plan` and returns what it showed.
///
/// # Errors
/// Too few open files are allowed, a thread cannot be started, or no connection could be set up.
pub(crate) fn measure(plan: Plan, settings: Settings) -> anyhow::Result<Measured> {
    let settings = Arc::new(settings);
    check_open_files(plan.connections.len())?;
    let before = Sample::of(&settings.pids);
    let shared = Arc::new(Shared::new(plan.publishers, settings.threads));
    let watch = Watch::start(&plan, &settings, Arc::clone(&shared))?;
    let mut run = Measured {
        mode: plan.mode,
        shape: plan.shape.clone(),
        publishers: plan.publishers,
        subscribers: plan.subscribers,
        connections: plan.connections.len(),
        filters: plan.filters(),
        course: plan.course,
        set_up_s: 0.0,
        seconds: 0.0,
        counted: Counters::default(),
        total: Counters::default(),
        expected: 0,
        latency: histogram(),
        ack_latency: histogram(),
        handshake: histogram(),
        server: Samples { before, ..Samples::default() },
        generator_cpu_s: 0.0,
        other_cpu_s: 0.0,
        troubles: Vec::new(),
        settings,
    };
    // A storm is nothing but set-up.
    if !matches!(run.course, Course::Visits { .. }) {
        run.set_up_s = watch.set_up(run.connections)?;
        run.server.set_up = Sample::of(&run.settings.pids);
    }
    watch.warm_up(&run);
    watch.measurement(&mut run);
    shared.enter(Phase::Drain);
    if run.course == Course::Messages {
        watch.drain(plan.fan, run.settings.drain);
    }
    run.server.end = Sample::of(&run.settings.pids);
    shared.enter(Phase::End);
    for stats in watch.finish()? {
        run.total = run.total.plus(stats.counters);
        add(&mut run.latency, &stats.latency);
        add(&mut run.ack_latency, &stats.ack_latency);
        add(&mut run.handshake, &stats.handshake);
    }
    run.expected = run.total.published * plan.fan;
    run.troubles = shared.take_troubles();
    Ok(run)
}

fn add(sum: &mut Histogram<u64>, part: &Histogram<u64>) {
    sum.add(part).expect("both have the same bounds");
}

fn check_open_files(connections: usize) -> anyhow::Result<()> {
    let wanted = connections as u64 + OTHER_FILES;
    match process::raise_open_files() {
        Some(allowed) if allowed < wanted => anyhow::bail!(
            "{connections} connections need {wanted} open files and this process may open {allowed}; \
             raise the hard limit (ulimit -Hn {wanted}, as root) or take fewer connections"
        ),
        _ => Ok(()),
    }
}

/// The threads of a run and what shows their progress.
struct Watch {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<std::io::Result<Stats>>>,
    bar: ProgressBar,
    start: Instant,
}

impl Watch {
    fn start(plan: &Plan, settings: &Arc<Settings>, shared: Arc<Shared>) -> anyhow::Result<Self> {
        let start = Instant::now();
        let mut threads = Vec::new();
        for index in 0..settings.threads {
            let worker =
                Worker::new(index, plan, settings, &shared).context("cannot set up an event loop")?;
            let thread = thread::Builder::new().name(format!("bench-{index}")).spawn(move || worker.run());
            threads.push(thread.context("cannot start a thread")?);
        }
        // Nothing is drawn where standard error is no terminal.
        let bar = ProgressBar::new(1);
        let style =
            ProgressStyle::with_template("{prefix:>10} [{bar:30}] {wide_msg}").expect("constant template");
        bar.set_style(style.progress_chars("=> "));
        Ok(Self { shared, threads, bar, start })
    }

    /// Waits until every connection is ready or has failed; returns the seconds that took.
    fn set_up(&self, connections: usize) -> anyhow::Result<f64> {
        self.show("set-up", connections as u64);
        let mut seen = (0, Instant::now());
        loop {
            let counters = self.shared.counters();
            let through = counters.ready + counters.failed;
            self.bar.set_position(through);
            if through >= connections as u64 {
                break;
            }
            let progress = through + counters.subscribed;
            if progress != seen.0 {
                seen = (progress, Instant::now());
            }
            if seen.1.elapsed() > SET_UP_STALL {
                self.shared.trouble(format!("set-up stalled: {through} of {connections} connections stand"));
                break;
            }
            self.check_threads()?;
            thread::sleep(LOOK);
        }
        if self.shared.counters().ready == 0 {
            self.bar.finish_and_clear();
            let why = self.shared.take_troubles().into_iter().next();
            let why = why.unwrap_or_else(|| "the broker does not answer".to_owned());
            anyhow::bail!("no connection could be set up: {why}; is the broker running, and is --url right?");
        }
        Ok(self.start.elapsed().as_secs_f64())
    }

    fn warm_up(&self, run: &Measured) {
        self.shared.enter(Phase::WarmUp);
        if matches!(run.course, Course::Messages | Course::Visits { .. }) {
            self.pass("warm-up", run.settings.warm_up);
        }
    }

    fn measurement(&self, run: &mut Measured) {
        let pids = &run.settings.pids;
        let (machine, own) = (process::machine_time(), process::own_cpu_s());
        run.server.measure_start = Sample::of(pids);
        let counters = self.shared.counters();
        let start = Instant::now();
        self.shared.enter(Phase::Measure);
        match run.course {
            Course::Messages | Course::Rest => self.pass("measuring", run.settings.duration),
            Course::Visits { clients } => {
                self.until("clients", clients, run.settings.duration * STORM_PATIENCE, |now| {
                    now.visits - counters.visits
                });
            }
            Course::Subscriptions => {
                let filters = run.filters as u64;
                self.until("filters", filters, run.settings.duration * STORM_PATIENCE, |now| now.subscribed);
            }
        }
        run.counted = self.shared.counters().since(counters);
        run.seconds = start.elapsed().as_secs_f64();
        run.server.measure_end = Sample::of(pids);
        run.generator_cpu_s = process::own_cpu_s() - own;
        let server_s = run.server.measure_end.cpu_s - run.server.measure_start.cpu_s;
        let now = process::machine_time();
        let others_s = now.busy_s - machine.busy_s - server_s - run.generator_cpu_s;
        run.other_cpu_s = others_s.max(0.0) + now.stolen_s - machine.stolen_s;
    }

    /// Waits until all that was published has come, or nothing has for `patience`.
    fn drain(&self, fan: u64, patience: Duration) {
        self.show("drain", 1);
        let mut seen = (0, Instant::now());
        loop {
            let settled = self.shared.all_in(Phase::Drain);
            let counters = self.shared.counters();
            if settled && counters.delivered.saturating_sub(counters.duplicates) >= counters.published * fan {
                return;
            }
            if counters.delivered != seen.0 {
                seen = (counters.delivered, Instant::now());
            }
            if seen.1.elapsed() > patience {
                return;
            }
            thread::sleep(LOOK);
        }
    }

    /// Lets a fixed time pass.
    fn pass(&self, what: &'static str, time: Duration) {
        self.show(what, time.as_millis() as u64);
        let start = Instant::now();
        let mut last = (start, self.shared.counters());
        while let Some(rest) = time.checked_sub(start.elapsed()).filter(|rest| !rest.is_zero()) {
            thread::sleep(rest.min(TICK));
            if !self.bar.is_hidden() {
                let counters = self.shared.counters();
                let per_second = |count: u64| count as f64 / last.0.elapsed().as_secs_f64();
                let new = counters.since(last.1);
                self.bar.set_position(start.elapsed().as_millis() as u64);
                let (msgs_in, msgs_out) = (per_second(new.published), per_second(new.delivered));
                self.bar.set_message(match new.visits {
                    0 => format!("{msgs_in:.0} msg/s in, {msgs_out:.0} msg/s out"),
                    visits => format!("{:.0} clients/s", per_second(visits)),
                });
                last = (Instant::now(), counters);
            }
        }
    }

    /// Waits until a count reaches `goal`, or `patience` is over.
    fn until(&self, what: &'static str, goal: u64, patience: Duration, count: impl Fn(Counters) -> u64) {
        self.show(what, goal);
        let start = Instant::now();
        loop {
            let counters = self.shared.counters();
            let reached = count(counters);
            self.bar.set_position(reached);
            if reached >= goal {
                return;
            }
            if start.elapsed() > patience {
                return self.shared.trouble(format!("{reached} of {goal} {what} within {patience:?}"));
            }
            thread::sleep(LOOK);
        }
    }

    fn show(&self, what: &'static str, len: u64) {
        self.bar.set_prefix(what);
        self.bar.set_message("");
        self.bar.set_length(len.max(1));
        self.bar.set_position(0);
    }

    fn check_threads(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.threads.iter().any(JoinHandle::is_finished),
            "an event loop of the generator ended"
        );
        Ok(())
    }

    fn finish(self) -> anyhow::Result<Vec<Stats>> {
        self.bar.finish_and_clear();
        let join = |thread: JoinHandle<std::io::Result<Stats>>| {
            let stats = thread.join().map_err(|_| anyhow::anyhow!("a thread of the generator panicked"))?;
            stats.context("an event loop of the generator broke")
        };
        self.threads.into_iter().map(join).collect()
    }
}
