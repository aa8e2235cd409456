//! A set of filters said in fewer bytes: filters that cover all of them, and as little else as that allows.
//!
//! What a region asks of another is the union of what its clients ask for, and that has to fit into memory and onto a
//! link. A summary is *sound*: whatever a filter of the set matches, the summary matches. What it matches besides is
//! carried for nothing, so it is kept small, but never zero at any price.
//!
//! # How it is found
//!
//! 1. Filters that others cover are dropped. That alone changes nothing of what is matched, and where it is enough the
//!    summary is exact.
//! 2. While the rest is too large, the one step is taken that saves most bytes for the interest that it is thought to
//!    add. There are two kinds of step, for any common beginning:
//!
//! ```text
//! site/a/+/state   site/b/+/state   site/c/cmd
//!   +   site/+/+/state   site/+/cmd           the words that follow become +: what comes after them is kept
//!   #   site/#                                everything below
//! ```
//!
//! 3. Filters that the steps have covered from elsewhere are dropped.
//!
//! A filter is thought to be of as much interest as its literal levels leave open. Behind each beginning there are
//! thought to be more words than filters name there: three for two that are named, 60 for 20, 900,000 for 100,000, and
//! 64 at least at the first level; naming one divides the interest by that number, and a `#` doubles it. For the words
//! of which there are many are ids, and other regions have others; those of which there are few are mostly the same
//! everywhere. Topics that are really published are not known here; whoever knows them may choose better.
//!
//! The best step may save far more than is needed, or make earlier ones needless. If more than half of the budget is
//! left unused, two other plans are tried, one without such steps, one that begins with the levels at which most
//! differ; of the three results the one of least interest is the summary.
//!
//! The same set gives the same summary, in whatever order it comes. Reserved topics (`$SYS/…`) are never reached by a
//! leading wildcard [MQTT-4.7.2-1], so each reserved first level keeps at least one filter of its own.

mod cover;
mod squeeze;
mod trie;

use meridian_types::TopicFilter;

use squeeze::Plan;
use trie::{ROOT, Trie};

/// How large a summary may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of all filters together, with their overhead.
    pub bytes_max: usize,
    /// What a filter costs besides its text where the summary goes: a length, a node of an index.
    pub filter_overhead_bytes: usize,
}

/// Filters that together match every topic that the filters of a set match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The filters, all valid, in the order of their bytes; none covers another, unless more than 64 ways lead there.
    pub filters: Vec<String>,
    /// Their bytes together, with overhead: within the budget.
    pub bytes: usize,
    /// Steps by which more is matched than the set does; if there are none the summary is exact.
    pub widening_count: usize,
}

/// The set cannot be brought under its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the filters take {bytes_min} bytes at least, {bytes_max} are allowed")]
pub struct TooSmall {
    /// What they can be brought down to.
    pub bytes_min: usize,
    /// What was asked for.
    pub bytes_max: usize,
}

/// Finds filters that cover all of `filters` in `budget`.
///
/// Cost: sorts the filters, builds a trie of about 80 bytes for each node of it, and takes a step or two for each level
/// of each filter, however many cover each other; if something has to be given up, that again for each level, and up to
/// three times. A second to some ten for a million filters; meant for a thread that has the time.
///
/// # Errors
/// [`TooSmall`] if the budget is less than what `#` and one filter for each reserved first level take.
///
/// ```
/// use meridian_router::summary::{Budget, summarize};
/// use meridian_types::TopicFilter;
///
/// let filters = ["plant/1/state", "plant/2/state", "plant/2/alarm", "plant/+/alarm", "office/#"];
/// let filters = filters.map(|text| TopicFilter::new(text).unwrap());
/// let budget = |bytes_max| Budget { bytes_max, filter_overhead_bytes: 2 };
/// let exact = summarize(filters, budget(1_000)).unwrap();
/// assert_eq!(exact.filters, ["office/#", "plant/+/alarm", "plant/1/state", "plant/2/state"]);
/// let short = summarize(filters, budget(50)).unwrap();
/// assert_eq!(short.filters, ["office/#", "plant/+/alarm", "plant/+/state"]);
/// let shorter = summarize(filters, budget(20)).unwrap();
/// assert_eq!(shorter.filters, ["office/#", "plant/#"]);
/// ```
pub fn summarize<'f>(
    filters: impl IntoIterator<Item = TopicFilter<'f>>,
    budget: Budget,
) -> Result<Summary, TooSmall> {
    let mut texts: Vec<&str> = filters.into_iter().map(canonical).collect();
    texts.sort_unstable();
    texts.dedup();
    let overhead = budget.filter_overhead_bytes;
    let mut trie = Trie::new(&texts);
    cover::drop_covered(&mut trie, ROOT);
    if trie.total_bytes(overhead) <= budget.bytes_max {
        return Ok(Summary { bytes: trie.total_bytes(overhead), filters: trie.texts(), widening_count: 0 });
    }
    let mut widening_count = widen(&mut trie, budget, Plan::Best);
    let bytes = trie.total_bytes(overhead);
    if bytes > budget.bytes_max {
        return Err(TooSmall { bytes_min: bytes, bytes_max: budget.bytes_max });
    }
    let others = if bytes < budget.bytes_max / 2 { &[Plan::Small, Plan::Wide][..] } else { &[] };
    for &plan in others {
        let mut other = Trie::new(&texts);
        cover::drop_covered(&mut other, ROOT);
        let count = widen(&mut other, budget, plan);
        let is_within = other.total_bytes(overhead) <= budget.bytes_max;
        if is_within && squeeze::interest_in(&other) < squeeze::interest_in(&trie) {
            (trie, widening_count) = (other, count);
        }
    }
    Ok(Summary { bytes: trie.total_bytes(overhead), filters: trie.texts(), widening_count })
}

/// Brings a trie under its budget, as far as it can be; returns how many steps that took.
fn widen(trie: &mut Trie<'_>, budget: Budget, plan: Plan) -> usize {
    let count = squeeze::squeeze(trie, budget, plan);
    cover::drop_covered(trie, ROOT);
    count
}

/// The shorter of two filters that match the same, because no topic is empty.
fn canonical(filter: TopicFilter<'_>) -> &str {
    match filter.as_str() {
        "+/#" => "#",
        "/+/#" => "/#",
        text => text,
    }
}
