//! String prefixes, as Zeek's Broker subscribes.

use index_harness::Random;
use meridian_router::{Entry, MatchCache, PrefixIndex, TargetId};

use crate::{Context, rate, slowest};

/// Ten thousand prefixes, and a hundred times as many.
pub(crate) fn run(context: &Context) {
    for count in [10_000, context.scaled(1_000_000)] {
        measure(context, count);
    }
}

fn measure(context: &Context, count: usize) {
    let report = context.report(&format!("prefix, {count} prefixes"));
    let kinds = ["conn", "dns", "http", "files", "ssl"];
    let mut random = Random::new(5);
    let prefixes: Vec<Vec<u8>> = (random.order(count).into_iter())
        .map(|at| format!("/zeek/event/{}/node-{at}", kinds[at as usize % kinds.len()]).into_bytes())
        .collect();
    let index = PrefixIndex::new();
    let empty = index.memory_bytes();
    let insert = rate(&prefixes, |at, prefix| _ = index.insert(prefix, TargetId(at as u32), 0));
    report.add("insert_random_per_s", insert, "1/s");
    report.add("bytes_per_binding", (index.memory_bytes() - empty) as f64 / count as f64, "B");

    let texts: Vec<Vec<u8>> = (0..count.min(400_000))
        .map(|_| [&prefixes[random.below(count)][..], b"/log".as_slice()].concat())
        .collect();
    let mut out = Vec::new();
    context.report_latencies(&report, &texts, |text| {
        out.clear();
        index.matches(text, &mut out);
        out.len()
    });

    let few = &texts[..count.min(1_000)];
    let mut cache = Cached { index: &index, cache: MatchCache::new(64 << 20) };
    (0..2).for_each(|_| few.iter().for_each(|text| _ = cache.look_up(text)));
    let wanted: Vec<u32> = (0..2_000_000).map(|_| random.below(few.len()) as u32).collect();
    let cached = rate(&wanted, |_, &at| _ = std::hint::black_box(cache.look_up(&few[at as usize])));
    report.add("cached_match_per_s", cached, "1/s");

    let order = random.order(count);
    let shuffled: Vec<Vec<u8>> = order.iter().map(|&at| prefixes[at as usize].clone()).collect();
    let remove = rate(&shuffled, |at, prefix| _ = index.remove(prefix, TargetId(order[at])));
    report.add("remove_per_s", remove, "1/s");
    assert_eq!(index.entry_count(), 0, "everything was removed");
    let insert = |at: usize, prefix: &Vec<u8>| _ = index.insert(prefix, TargetId(order[at]), 0);
    let remove = |at: usize, prefix: &Vec<u8>| _ = index.remove(prefix, TargetId(order[at]));
    report.add("worst_op_us", slowest(context.effort.worst_passes, &shuffled, insert, remove), "us");
}

/// A thread's look-ups through the cache.
struct Cached<'a> {
    index: &'a PrefixIndex,
    cache: MatchCache<Box<[Entry]>>,
}

impl Cached<'_> {
    #[inline]
    fn look_up(&mut self, text: &[u8]) -> usize {
        if let Some(entries) = self.cache.get(0, text, |guard| self.index.is_current(guard)) {
            return entries.len();
        }
        let guard = self.index.guard(text);
        let mut entries = Vec::new();
        self.index.matches(text, &mut entries);
        let count = entries.len();
        self.cache.put(0, text, guard, entries.into(), count * size_of::<Entry>());
        count
    }
}
