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
//! A filter is thought to be of as much interest as its literal levels leave open: each literal level divides it by 64,
//! and a `#` at the end doubles it. So what filters of many levels say is given up before what those of few do, unless
//! that saves far more, and a level at which hundreds of thousands differ in the same manner becomes a `+` first. Topics
//! that are really published are not known here; whoever knows them may choose better.
//!
//! The same set gives the same summary, in whatever order it comes. Reserved topics (`$SYS/…`) are never reached by a
//! leading wildcard [MQTT-4.7.2-1], so each reserved first level keeps at least one filter of its own.

mod cover;
mod squeeze;
mod trie;

use meridian_types::TopicFilter;

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
/// Cost: sorts the filters, builds a trie of about 80 bytes for each node of it, and then in the order of the levels of
/// all filters, however many cover each other; if steps are needed, about that again for each level. A second or two
/// for a million filters; meant for a thread that has the time.
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
    let mut trie = Trie::new(&texts);
    cover::drop_covered(&mut trie, ROOT);
    let widening_count = squeeze::squeeze(&mut trie, budget);
    if widening_count > 0 {
        cover::drop_covered(&mut trie, ROOT);
    }
    let bytes = trie.total_bytes(budget.filter_overhead_bytes);
    if bytes > budget.bytes_max {
        return Err(TooSmall { bytes_min: bytes, bytes_max: budget.bytes_max });
    }
    Ok(Summary { filters: trie.texts(), bytes, widening_count })
}

/// The shorter of two filters that match the same, because no topic is empty.
fn canonical(filter: TopicFilter<'_>) -> &str {
    match filter.as_str() {
        "+/#" => "#",
        "/+/#" => "/#",
        text => text,
    }
}
