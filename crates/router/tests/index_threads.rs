//! The index under readers and writers at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use meridian_router::{Entry, Index, TargetId};
use meridian_types::{TopicFilter, TopicName};

/// Targets from here on come and go; those below stay.
const PASSING: u32 = 1_000;

fn filter(text: &str) -> TopicFilter<'_> {
    TopicFilter::new(text).unwrap()
}

fn topic(text: &str) -> TopicName<'_> {
    TopicName::new(text).unwrap()
}

/// Filters that lie next to, above and below the ones that stay, so that their nodes split and join.
fn passing_filter(number: usize) -> String {
    let device = number % 17;
    match number % 6 {
        0 => format!("device/{device}/a/{number}"),
        1 => format!("device/{device}/a"),
        2 => format!("device/{device}/+/b/#"),
        3 => format!("+/{device}/a/b"),
        4 => format!("device/+/passing-{number}"),
        _ => format!("device/{device}/a/b/c/{number}/#"),
    }
}

#[test]
fn readers_always_see_entries_that_stay() {
    let index = Index::new();
    let topics: Vec<String> = (0..17).map(|device| format!("device/{device}/a/b/c")).collect();
    for (device, text) in (0..).zip(&topics) {
        index.insert(filter(text), TargetId(device), 1);
        index.insert(filter(&format!("device/{device}/+/b/+")), TargetId(device), 2);
        index.insert(filter(&format!("device/{device}/#")), TargetId(device), 3);
    }
    index.insert(filter("#"), TargetId(100), 4);

    let (stop, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut found = Vec::new();
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let device = round % topics.len();
                    found.clear();
                    index.matches(topic(&topics[device]), &mut found);
                    let mut stays: Vec<(u32, u32)> = (found.iter())
                        .filter(|entry| entry.target.0 < PASSING)
                        .map(|entry| (entry.target.0, entry.options))
                        .collect();
                    stays.sort_unstable();
                    let device = device as u32;
                    assert_eq!(stays, [(device, 1), (device, 2), (device, 3), (100, 4)]);
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let writers: Vec<_> = (0..2u32)
            .map(|writer| {
                let index = &index;
                scope.spawn(move || {
                    for round in 0..20 {
                        let texts: Vec<String> =
                            (0..200).map(|number| passing_filter(number + round)).collect();
                        let target = TargetId(PASSING + writer);
                        let ids: Vec<_> =
                            texts.iter().map(|text| index.insert(filter(text), target, 0).0).collect();
                        for (text, &id) in texts.iter().zip(&ids).rev() {
                            if round % 2 == 0 {
                                index.remove(filter(text), target);
                            } else {
                                index.remove_by_id(id, target);
                            }
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        while rounds.load(Ordering::Relaxed) < 100 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(index.entry_count(), 17 * 3 + 1, "whoever came has gone");
}

#[test]
fn a_result_cached_by_its_generation_is_never_stale() {
    const ROUNDS: u32 = 2_000;
    let index = Index::new();
    let texts = ["plant/1/oven", "plant/2/oven", "hall"];
    // The options that each topic's filter has at least, as its writer knows them: written after `insert` returned.
    let least: [AtomicUsize; 3] = Default::default();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut cache: HashMap<usize, (u64, Vec<Entry>)> = HashMap::new();
            for round in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let at = round % texts.len();
                let expected = least[at].load(Ordering::Acquire);
                let generation = index.generation(&index.regions(topic(texts[at])));
                let held = cache.entry(at).or_insert((u64::MAX, Vec::new()));
                if held.0 != generation {
                    held.0 = generation;
                    held.1.clear();
                    index.matches(topic(texts[at]), &mut held.1);
                }
                let options = held.1.first().map_or(0, |entry| entry.options as usize);
                assert!(options >= expected, "{options} is older than {expected}");
            }
        });
        let filters = ["plant/1/+", "plant/2/oven", "hall/#"];
        for options in 1..=ROUNDS {
            for (text, least) in filters.iter().zip(&least) {
                index.insert(filter(text), TargetId(1), options);
                least.store(options as usize, Ordering::Release);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
