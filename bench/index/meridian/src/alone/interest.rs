//! What the nodes of a cluster do with each other's filters.

use index_harness::{Random, Texts, visit};
use meridian_router::owners::OwnedRoutes;
use meridian_router::summary::{Budget, summarize};
use meridian_router::{Index, TargetId};
use meridian_types::TopicFilter;

use crate::{Context, timed};

/// Routes dropped before others get a turn.
const BATCH: usize = 64;

/// Filters of case c, in random order.
fn filters(context: &Context) -> Texts {
    let mut filters = Texts::default();
    visit("c", |filter, _| filters.push(filter));
    let order = Random::new(7).order(filters.len());
    filters.picked(&order[..context.scaled(filters.len())])
}

/// Summaries of a million filters within several budgets.
pub(crate) fn run_summary(context: &Context) {
    let filters = filters(context);
    for (name, bytes_max) in [("no limit", usize::MAX), ("1 MiB", 1 << 20), ("16 KiB", 1 << 14)] {
        let report = context.report(&format!("summary of {} filters, {name}", filters.len()));
        let budget = Budget { bytes_max, filter_overhead_bytes: 8 };
        let (nanos, summary) = timed(|| summarize(filters.iter().map(valid), budget).expect("it fits"));
        report.add("time_ms", nanos / 1e6, "ms");
        report.add("ns_per_item", nanos / filters.len() as f64, "ns");
        report.add("filters", summary.filters.len() as f64, "count");
        report.add("bytes_total", summary.bytes as f64, "B");
    }
}

/// Drops the routes of an owner with a million of them, alone and beside another owner with as many.
pub(crate) fn run_owner(context: &Context) {
    let filters = filters(context);
    for others in [0, filters.len()] {
        let report = context.report(&format!("owner of {} routes, others' {others}", filters.len()));
        let index = Index::new();
        let mut owner = OwnedRoutes::new(TargetId(1), 0);
        for at in 0..others {
            index.insert(valid(filters.get(at)), TargetId(2), 0);
        }
        let (nanos, ()) = timed(|| filters.iter().for_each(|text| _ = owner.insert(&index, valid(text))));
        report.add("insert_random_per_s", filters.len() as f64 * 1e9 / nanos, "1/s");
        report.add("bytes_per_binding", owner.memory_bytes() as f64 / filters.len() as f64, "B");
        let (marked, ()) = timed(|| owner.mark_stale());
        let (mut total, mut worst) = (marked, marked);
        loop {
            let (nanos, dropped) = timed(|| owner.drop_stale(&index, BATCH, &mut |_| {}));
            total += nanos;
            worst = worst.max(nanos);
            if dropped.left == 0 {
                break;
            }
        }
        assert_eq!(index.entry_count(), others, "the owner's routes are gone, the others' are not");
        report.add("time_ms", total / 1e6, "ms");
        report.add("ns_per_item", total / filters.len() as f64, "ns");
        // One step: marking all as stale, or dropping a batch.
        report.add("worst_op_us", worst / 1e3, "us");
    }
}

fn valid(text: &str) -> TopicFilter<'_> {
    TopicFilter::new(text).expect("workloads hold valid filters")
}
