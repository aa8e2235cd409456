//! Summaries against comparing every filter with every other.

use std::collections::BTreeSet;

use meridian_router::algebra::covers;
use meridian_router::summary::{Budget, Summary, TooSmall, summarize};
use meridian_types::TopicFilter;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn filter(text: &str) -> TopicFilter<'_> {
    TopicFilter::new(text).unwrap()
}

fn summary_of(
    filters: &[String],
    bytes_max: usize,
    filter_overhead_bytes: usize,
) -> Result<Summary, TooSmall> {
    summarize(filters.iter().map(|text| filter(text)), Budget { bytes_max, filter_overhead_bytes })
}

/// Those that no other one covers, where two that cover each other are one.
fn maximal(filters: &[String]) -> BTreeSet<String> {
    let canonical = filters.iter().map(|text| match text.as_str() {
        "+/#" => "#".to_owned(),
        "/+/#" => "/#".to_owned(),
        _ => text.clone(),
    });
    let all: BTreeSet<String> = canonical.collect();
    let is_covered =
        |text: &String| all.iter().any(|other| other != text && covers(filter(other), filter(text)));
    all.iter().filter(|text| !is_covered(text)).cloned().collect()
}

fn filters() -> impl Strategy<Value = Vec<String>> {
    let word = select(&["a", "b", "c", "$x", "$SYS", "", "temperature", "1", "2", "3"][..]);
    let level = prop_oneof![7 => word.prop_map(str::to_owned), 2 => Just("+".to_owned())];
    let filter = (vec(level, 0..6), prop::bool::weighted(0.2)).prop_map(|(mut levels, ends_in_hash)| {
        if ends_in_hash {
            levels.push("#".to_owned());
        }
        levels.join("/")
    });
    vec(filter.prop_filter("not empty", |text| !text.is_empty()), 0..40)
}

/// Filters that differ at a level or two, as devices do.
fn regular_filters() -> impl Strategy<Value = Vec<String>> {
    vec((0..4u8, 0..6u8, 0..3u8), 1..60).prop_map(|ids| {
        let text = |(site, device, kind)| match kind {
            0 => format!("site/{site}/device/{device}/state"),
            1 => format!("site/{site}/+/{device}/#"),
            _ => format!("$sys/{site}/{device}"),
        };
        ids.into_iter().map(text).collect()
    })
}

fn check(filters: &[String], summary: &Summary, bytes_max: usize, overhead: usize) {
    assert!(summary.bytes <= bytes_max);
    assert_eq!(summary.bytes, summary.filters.iter().map(|text| text.len() + overhead).sum::<usize>());
    for text in filters {
        let is_covered = summary.filters.iter().any(|general| covers(filter(general), filter(text)));
        assert!(is_covered, "{text} is lost in {:?}", summary.filters);
    }
    assert_eq!(BTreeSet::from_iter(summary.filters.clone()), maximal(&summary.filters), "not minimal");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn a_summary_with_room_is_the_filters_that_no_other_covers(filters in filters()) {
        let summary = summary_of(&filters, usize::MAX, 0).unwrap();
        prop_assert_eq!(summary.widening_count, 0);
        prop_assert_eq!(BTreeSet::from_iter(summary.filters), maximal(&filters));
    }

    #[test]
    fn a_summary_covers_every_filter_within_its_budget(
        filters in prop_oneof![filters(), regular_filters()], bytes_max in 0..400usize, overhead in 0..10usize,
    ) {
        match summary_of(&filters, bytes_max, overhead) {
            Ok(summary) => check(&filters, &summary, bytes_max, overhead),
            Err(TooSmall { bytes_min, .. }) => {
                prop_assert!(bytes_min > bytes_max);
                let summary = summary_of(&filters, bytes_min, overhead).unwrap();
                check(&filters, &summary, bytes_min, overhead);
                // A filter for each reserved first level, and one for all others.
                let firsts: BTreeSet<&str> = (filters.iter())
                    .map(|text| text.split('/').next().unwrap())
                    .map(|first| if first.starts_with('$') { first } else { "" })
                    .collect();
                prop_assert!(summary.filters.len() <= firsts.len(), "{:?}", summary.filters);
            }
        }
    }

    #[test]
    fn a_summary_does_not_depend_on_the_order(
        filters in prop_oneof![filters(), regular_filters()], bytes_max in 20..300usize, rotation in any::<usize>(),
    ) {
        let mut other = filters.clone();
        other.rotate_left(rotation % filters.len().max(1));
        other.reverse();
        other.extend(filters.first().cloned());
        prop_assert_eq!(summary_of(&filters, bytes_max, 3), summary_of(&other, bytes_max, 3));
    }
}

fn texts(filters: impl IntoIterator<Item = String>) -> Vec<String> {
    filters.into_iter().collect()
}

#[test]
fn the_level_at_which_many_differ_becomes_a_plus_first() {
    let grid = (0..200).flat_map(|device| ["state", "alarm"].map(|kind| format!("plant/{device}/{kind}")));
    let mut filters = texts(grid);
    filters.push("office/door/7/open".to_owned());
    let summary = summary_of(&filters, 200, 4).unwrap();
    assert_eq!(summary.filters, ["office/door/7/open", "plant/+/alarm", "plant/+/state"]);
    assert_eq!(summary.widening_count, 1);
}

#[test]
fn reserved_topics_keep_filters_of_their_own() {
    let filters = texts(["$SYS/a", "$SYS/b/c", "$x", "a/b", "c"].map(str::to_owned));
    assert_eq!(summary_of(&filters, 10, 0).unwrap().filters, ["#", "$SYS/#", "$x"]);
    assert_eq!(summary_of(&filters, 8, 0), Err(TooSmall { bytes_min: 9, bytes_max: 8 }));
}

#[test]
fn one_filter_that_is_too_long_is_cut() {
    let filters = texts([format!("a/{}/b", "x".repeat(60_000))]);
    assert_eq!(summary_of(&filters, 100, 0).unwrap().filters, ["#"]);
    assert_eq!(summary_of(&[], 0, 9).unwrap().filters, [""; 0]);
}

#[test]
fn every_combination_of_wildcards_is_one_filter() {
    // More ways lead to each than are followed, but the most general first.
    let combination = |bits: u32| {
        let levels: Vec<&str> = (0..12).map(|at| if bits >> at & 1 == 0 { "a" } else { "+" }).collect();
        levels.join("/")
    };
    let filters = texts((0..1 << 12).map(combination));
    let summary = summary_of(&filters, usize::MAX, 0).unwrap();
    let all = ["+"; 12].join("/");
    assert_eq!(summary.filters, [all]);
}
