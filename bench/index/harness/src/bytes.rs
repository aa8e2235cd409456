//! Memory.

use crate::clock::resident_bytes;
use crate::{Arguments, Random, Report, Subject, Workload};

/// Counts what an index holds of one case.
///
/// `in_use` says how many bytes the process has from the allocator; the index counts with all it has, the structure of
/// an empty one included, but without the allocator's own bookkeeping. `resident` figures are the kernel's, with it.
/// Churn is ten rounds in which nine of ten filters leave and come back, in random order.
pub fn run<S: Subject>(arguments: &Arguments, in_use: impl Fn() -> usize) {
    let report = Report::new(&arguments.row, &arguments.case);
    let Workload { filters, held, topics } = Workload::new::<S>(&arguments.case);
    drop(topics);
    let order = Random::new(7).order(filters.len());
    let mut tickets = vec![None; filters.len()];
    let (before, resident_before) = (in_use(), resident_bytes());
    let bytes = || in_use().saturating_sub(before) as f64;
    let resident = || resident_bytes().saturating_sub(resident_before) as f64;
    let per = held as f64;

    let index = S::new();
    let empty = bytes();
    for (at, text) in filters.iter().enumerate() {
        tickets[at] = Some(index.insert(text, at as u32 + 1));
    }
    report.add("bytes_total", bytes(), "B");
    report.add("bytes_per_filter", bytes() / per, "B");
    report.add("resident_bytes_per_filter", resident() / per, "B");
    if let Some(own) = index.own_bytes() {
        report.add("own_count_bytes_per_filter", own as f64 / per, "B");
    }

    let remove = |at: usize, ticket: &mut Option<S::Ticket>| {
        let ticket = ticket.take().expect("every filter was inserted");
        index.remove(filters.get(at), at as u32 + 1, &ticket);
    };
    for round in 0..arguments.effort.churn_rounds {
        let leaving = || order.iter().map(|&at| at as usize).filter(move |at| at % 10 != round % 10);
        leaving().for_each(|at| remove(at, &mut tickets[at]));
        leaving().for_each(|at| tickets[at] = Some(index.insert(filters.get(at), at as u32 + 1)));
    }
    if arguments.effort.churn_rounds > 0 {
        report.add("bytes_per_filter_after_churn", bytes() / per, "B");
        report.add("resident_bytes_per_filter_after_churn", resident() / per, "B");
    }
    for &at in &order {
        remove(at as usize, &mut tickets[at as usize]);
    }
    report.add("bytes_left", bytes() - empty, "B");
}
