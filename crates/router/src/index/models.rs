//! The protocol of locks, counts and generations, tried in every order that the memory model allows.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p meridian-router --lib models
//! ```

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::*;

fn filter(text: &str) -> TopicFilter<'_> {
    TopicFilter::new(text).unwrap()
}

fn topic(text: &str) -> TopicName<'_> {
    TopicName::new(text).unwrap()
}

fn found(index: &Index, text: &str) -> Vec<Entry> {
    let mut out = Vec::new();
    index.matches(topic(text), &mut out);
    out
}

/// Explores with up to three forced switches between threads, which finds nearly all that there is to find.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn a_filter_whose_insertion_has_returned_is_found() {
    explore(|| {
        let index = Arc::new(Index::new());
        let inserted = Arc::new(AtomicU32::new(0));
        let writer = {
            let (index, inserted) = (index.clone(), inserted.clone());
            thread::spawn(move || {
                index.insert(filter("a/+"), TargetId(1), 7);
                inserted.store(1, Ordering::Release);
                index.insert(filter("#"), TargetId(2), 7);
                inserted.store(2, Ordering::Release);
            })
        };
        let least = inserted.load(Ordering::Acquire) as usize;
        assert!(found(&index, "a/b").len() >= least, "a shard was passed by");
        writer.join().unwrap();
        assert_eq!(found(&index, "a/b").len(), 2);
    });
}

#[test]
fn a_filter_that_stays_is_found_while_its_neighbour_comes_and_goes() {
    explore(|| {
        let index = Arc::new(Index::new());
        index.insert(filter("a/+"), TargetId(1), 7);
        let writer = {
            let index = index.clone();
            thread::spawn(move || {
                index.insert(filter("a/#"), TargetId(2), 7);
                index.remove(filter("a/#"), TargetId(2));
            })
        };
        assert!(found(&index, "a/b").contains(&Entry { target: TargetId(1), options: 7 }));
        writer.join().unwrap();
        assert_eq!(found(&index, "a/b").len(), 1);
    });
}

#[test]
fn two_writers_leave_nothing_behind() {
    explore(|| {
        let index = Arc::new(Index::new());
        let writer = {
            let index = index.clone();
            thread::spawn(move || {
                let (id, _) = index.insert(filter("a/b"), TargetId(1), 7);
                index.remove_by_id(id, TargetId(1))
            })
        };
        index.insert(filter("a/b"), TargetId(2), 8);
        assert_eq!(index.remove(filter("a/b"), TargetId(2)).map(|(_, options)| options), Some(8));
        assert_eq!(writer.join().unwrap(), Some(7));
        assert_eq!(index.filter_count(), 0);
        let place = index.place_of_filter(filter("a/b"));
        assert!(index.shards.is_empty(place), "the count is what is held");
    });
}

#[test]
fn a_cached_result_is_not_used_after_a_change_has_returned() {
    explore(|| {
        let index = Arc::new(Index::new());
        let options = Arc::new(AtomicU32::new(0));
        let writer = {
            let (index, options) = (index.clone(), options.clone());
            thread::spawn(move || {
                index.insert(filter("a/+"), TargetId(1), 1);
                options.store(1, Ordering::Release);
            })
        };
        let regions = index.regions(topic("a/b"));
        // As a cache does: the generation first, then the look-up that it guards.
        let generation = index.generation(&regions);
        let cached = found(&index, "a/b");
        // Later, the change being known of: the cached result is used only if its generation holds.
        if options.load(Ordering::Acquire) == 1 && index.generation(&regions) == generation {
            assert_eq!(cached.len(), 1, "a stale result would be used");
        }
        writer.join().unwrap();
    });
}
