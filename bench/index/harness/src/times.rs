//! Rates, latencies and the slowest operation.

use std::time::Instant;

use crate::clock::{overheads, percentile, settle_allocator, thread_nanos};
use crate::lookups::{busy_latencies, latencies, match_rates};
use crate::{Arguments, Effort, Random, Report, Subject, Texts, Workload};

/// Topics of the small set for the cache: NATS keeps 1,024.
const CACHED_FEW: usize = 1_000;
/// Topics of the large set for the cache.
const CACHED_MANY: usize = 100_000;

/// Rounds of a loop that does nothing for about as long as an operation takes.
const SPINS: usize = 32;

/// Measures an index on one case.
///
/// Rates are per second of the thread's CPU time. Look-ups are timed one by one by the wall clock, in random order over
/// up to 400,000 topics, operations for the slowest one by one by the thread's own clock; both include one reading of the
/// clock, reported as `clock_ns` and `thread_clock_ns`. Of several passes the quietest counts: other work on the machine
/// can only add.
pub fn run<S: Subject>(arguments: &Arguments) {
    let report = Report::new(&arguments.row, &arguments.case);
    let (clock, thread_clock) = overheads();
    report.add("clock_ns", clock, "ns");
    report.add("thread_clock_ns", thread_clock, "ns");
    let run = Run::<S>::new(&arguments.case, arguments.effort, report);
    let mut best = [0.0f64; 3];
    for pass in 0..arguments.effort.rate_passes {
        let rates = run.rates(|index| {
            if pass == 0 && arguments.case == "g" {
                run.measure_fan_out(index);
            } else if pass == 0 {
                run.measure_matches(index);
            }
        });
        best = std::array::from_fn(|at| best[at].max(rates[at]));
    }
    let [insert, remove, insert_random] = best;
    run.report.add("insert_per_s", insert, "1/s");
    run.report.add("insert_random_per_s", insert_random, "1/s");
    let mut worst = [f64::MAX; 3];
    for _ in 0..arguments.effort.worst_passes {
        let slowest = run.slowest();
        worst = std::array::from_fn(|at| worst[at].min(slowest[at]));
    }
    let [insert, removal, insert_random] = worst;
    run.report.add("worst_insert_us", insert, "us");
    run.report.add("worst_insert_random_us", insert_random, "us");
    let mut all = insert.max(insert_random);
    if run.removal_works() {
        run.report.add("remove_per_s", remove, "1/s");
        run.report.add("worst_remove_us", removal, "us");
        all = all.max(removal);
    } else {
        run.report.note("filters stay after their removal, so there are no figures of it");
    }
    run.report.add("worst_op_us", all, "us");
    let nothing = (0..arguments.effort.worst_passes).map(|_| run.worst_of_nothing()).fold(f64::MAX, f64::min);
    run.report.add("worst_nothing_us", nothing, "us");
}

/// What the passes of a case share.
struct Run<S> {
    workload: Workload,
    effort: Effort,
    report: Report,
    /// Filter numbers in random order, and the filters so ordered, as if they had just arrived: their own cache
    /// misses are not the index's.
    order: Vec<u32>,
    shuffled: Texts,
    _subject: std::marker::PhantomData<S>,
}

impl<S: Subject> Run<S> {
    fn new(case: &str, effort: Effort, report: Report) -> Self {
        let workload = Workload::new::<S>(case);
        let order = Random::new(7).order(workload.filters.len());
        let shuffled = workload.filters.picked(&order);
        Self { workload, effort, report, order, shuffled, _subject: std::marker::PhantomData }
    }

    /// Inserts in order, calls `between`, removes and inserts in random order; each one's rate.
    fn rates(&self, between: impl FnOnce(&S)) -> [f64; 3] {
        let index = S::new();
        settle_allocator();
        let mut tickets = Vec::with_capacity(self.order.len());
        let insert = self.rate(|at| tickets.push(index.insert(self.workload.filters.get(at), at as u32 + 1)));
        let tickets: Vec<_> = self.order.iter().map(|&at| tickets[at as usize].clone()).collect();
        between(&index);
        settle_allocator();
        let remove = self.rate(|at| index.remove(self.shuffled.get(at), self.target(at), &tickets[at]));
        let mut again = Vec::with_capacity(self.order.len());
        let insert_random = self.rate(|at| again.push(index.insert(self.shuffled.get(at), self.target(at))));
        [insert, remove, insert_random]
    }

    /// As [`rates`](Self::rates), but the longest that one operation ran, in microseconds.
    fn slowest(&self) -> [f64; 3] {
        let index = S::new();
        settle_allocator();
        let mut tickets = Vec::with_capacity(self.order.len());
        let insert =
            self.worst(|at| tickets.push(index.insert(self.workload.filters.get(at), at as u32 + 1)));
        let tickets: Vec<_> = self.order.iter().map(|&at| tickets[at as usize].clone()).collect();
        settle_allocator();
        let remove = self.worst(|at| index.remove(self.shuffled.get(at), self.target(at), &tickets[at]));
        let mut again = Vec::with_capacity(self.order.len());
        let random = self.worst(|at| again.push(index.insert(self.shuffled.get(at), self.target(at))));
        [insert, remove, random]
    }

    /// The longest time from one reading of the clock to the next, in microseconds, over as many readings as there are
    /// operations: what the machine adds to any of them.
    fn worst_of_nothing(&self) -> f64 {
        let spin = |_| (0..SPINS).for_each(|_| std::hint::spin_loop());
        self.worst(spin)
    }

    /// The target of the filter with this number in random order.
    fn target(&self, at: usize) -> u32 {
        self.order[at] + 1
    }

    /// Operations per second of CPU time.
    fn rate(&self, mut operation: impl FnMut(usize)) -> f64 {
        let start = thread_nanos();
        for at in 0..self.order.len() {
            operation(at);
        }
        self.order.len() as f64 * 1e9 / (thread_nanos() - start) as f64
    }

    /// The longest CPU time of one operation, in microseconds.
    fn worst(&self, mut operation: impl FnMut(usize)) -> f64 {
        let mut worst = 0;
        let mut last = thread_nanos();
        for at in 0..self.order.len() {
            operation(at);
            let now = thread_nanos();
            worst = worst.max(now - last);
            last = now;
        }
        worst as f64 / 1e3
    }

    /// Whether nothing is found after everything was removed.
    fn removal_works(&self) -> bool {
        let index = S::new();
        let count = self.order.len().min(1_000);
        let (filters, topics) = (&self.workload.filters, &self.workload.topics);
        let tickets: Vec<_> = (0..count).map(|at| index.insert(filters.get(at), at as u32)).collect();
        for (at, ticket) in tickets.iter().enumerate() {
            index.remove(filters.get(at), at as u32, ticket);
        }
        let mut found = S::Found::default();
        topics.iter().all(|topic| index.matches(&S::topic(topic), &mut found) == 0)
    }

    fn measure_matches(&self, index: &S) {
        let (topics, report) = (&self.workload.topics, &self.report);
        report.add("filters", self.workload.held as f64, "count");
        let mut found = S::Found::default();
        let counts: Vec<usize> =
            topics.iter().map(|topic| index.matches(&S::topic(topic), &mut found)).collect();
        report.add("matches_per_topic", counts.iter().sum::<usize>() as f64 / topics.len() as f64, "count");
        let missed = counts.iter().filter(|&&count| count == 0).count();
        if missed > 0 {
            report.note(&format!("{missed} of {} topics find nothing", topics.len()));
        }
        let passes: Vec<_> = (0..self.effort.match_passes).map(|_| latencies(index, topics)).collect();
        report.add("match_p50_ns", least(&passes, 0.5), "ns");
        report.add("match_p99_ns", least(&passes, 0.99), "ns");
        let rates = match_rates(index, topics, self.effort.match_passes);
        report.add("match_per_s", rates.one, "1/s");
        report.add("match_two_threads", rates.two / rates.one, "times");
        report.add("match_two_threads_cpu", rates.two_by_cpu / rates.one_by_cpu, "times");
        let passes: Vec<_> = (0..self.effort.match_passes.min(3))
            .map(|_| busy_latencies(index, topics, &self.workload.filters))
            .collect();
        report.add("match_p50_under_writes_ns", least(&passes, 0.5), "ns");
        report.add("match_p99_under_writes_ns", least(&passes, 0.99), "ns");
        let first = |count: usize| topics.picked(&(0..topics.len().min(count) as u32).collect::<Vec<_>>());
        if let Some(rates) = index.cached_rates(&[first(CACHED_FEW), first(CACHED_MANY)]) {
            report.add("cached_match_per_s", rates[0], "1/s");
            report.add("cached_match_wide_per_s", rates[1], "1/s");
        }
    }

    /// One topic with all the targets.
    fn measure_fan_out(&self, index: &S) {
        let topic = S::topic(self.workload.topics.get(0));
        let mut found = S::Found::default();
        let targets = index.matches(&topic, &mut found);
        self.report.add("matches_per_topic", targets as f64, "count");
        let mut nanos: Vec<u32> = (0..5 * self.effort.match_passes)
            .map(|_| {
                let start = Instant::now();
                index.matches(&topic, &mut found);
                start.elapsed().as_nanos() as u32
            })
            .collect();
        nanos.sort_unstable();
        self.report.add("match_p50_ns", percentile(&nanos, 0.5), "ns");
        self.report.add("match_ns_per_target", percentile(&nanos, 0.5) / targets as f64, "ns");
    }
}

/// A percentile of the pass in which it is least.
fn least(passes: &[Vec<u32>], share: f64) -> f64 {
    passes.iter().map(|nanos| percentile(nanos, share)).fold(f64::MAX, f64::min)
}
