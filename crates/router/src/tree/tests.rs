//! The tree's invariants, checked from inside after every operation.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::pattern::RoutingPattern;
use crate::words::{AMQP, MANY, PLUS};

fn filter(text: &str) -> Path<&[u8]> {
    TopicFilter::new(text).unwrap().into()
}

fn entry(target: u32) -> Entry {
    Entry { target: TargetId(target), options: 0 }
}

/// Walks all nodes by their links and checks what the modules promise of them.
fn check(tree: &Tree) {
    let live: usize = tree.nodes.live().count();
    if tree.filter_count == 0 {
        assert_eq!((live, tree.memory_bytes()), (0, 0), "an empty tree holds nothing");
        return;
    }
    let mut seen = 0;
    let mut pending = vec![ROOT];
    while let Some(at) = pending.pop() {
        seen += 1;
        let node = tree.nodes.get(at);
        let mut children = 0;
        let mut leads_to_many = false;
        if let Shape::Branch { id, tail, plus } = tree.shape_of(node) {
            let branch = tree.branches.get(id);
            assert_eq!((tail, plus), (branch.tail, branch.plus), "a node repeats its branch");
            let mut xor = 0;
            let mut literals = 0;
            for id in 1..300 {
                let Some(child) = tree.nodes.find(id).filter(|child| child.parent() == at) else { continue };
                pending.push(id);
                children += 1;
                assert_eq!(tree.child(at, child.word), Some(id), "a child is found by its word");
                leads_to_many |= child.word == MANY;
                if child.word != PLUS {
                    literals += 1;
                    xor ^= id;
                }
            }
            assert_eq!((branch.literal_count, branch.literal_xor), (literals, xor));
            assert!(children > 0, "a branch has children");
        }
        assert_eq!(node.leads_to_many(), leads_to_many, "a node knows whether a child starts with `#`");
        let has_targets = node.targets() != Targets::None;
        assert!(at == ROOT || has_targets || children >= 2, "a node serves a purpose");
        assert!(children > 0 || has_targets || at == ROOT, "a leaf has targets");
    }
    assert_eq!(seen, live, "every node is reached from the root");
}

#[test]
fn shared_tails_are_stored_once() {
    let mut tree = Tree::new(MQTT);
    for number in 0..10_000 {
        tree.insert(&filter(&format!("t/{number}/some/rather/+/long/tail/#")), entry(number));
    }
    let per_filter = tree.memory_bytes() / 10_000;
    assert!(per_filter < 40, "{per_filter} bytes per filter");
}

#[test]
fn ids_survive_splits_and_joins() {
    let mut tree = Tree::new(MQTT);
    let long = tree.insert(&filter("a/b/c/d/e"), entry(1)).place;
    let below = tree.insert(&filter("a/b/c/d/e/#"), entry(1)).place;
    let fork = tree.insert(&filter("a/b/x"), entry(1)).place;
    let middle = tree.insert(&filter("a/b/c"), entry(1)).place;
    check(&tree);
    let texts = |tree: &Tree, places: &[FilterPlace]| -> Vec<Option<String>> {
        places.iter().map(|&place| tree.filter_text(place)).collect()
    };
    assert_eq!(
        texts(&tree, &[long, below, fork, middle]),
        ["a/b/c/d/e", "a/b/c/d/e/#", "a/b/x", "a/b/c"].map(|text| Some(text.to_owned()))
    );
    assert!(tree.remove(middle, TargetId(1)).is_some_and(|removed| removed.was_last));
    assert!(tree.remove(fork, TargetId(1)).is_some());
    check(&tree);
    assert_eq!(tree.nodes.live().count(), 2, "what no longer forks is one node again");
    assert_eq!(texts(&tree, &[long, middle])[0].as_deref(), Some("a/b/c/d/e"));
}

proptest! {
    #[test]
    fn invariants_hold_after_every_change(
        operations in vec(
            (vec(select(&["a", "b", "longer", "+", "7"][..]), 0..5), any::<bool>(), 0..3u32, any::<bool>()),
            1..60,
        ),
    ) {
        let mut tree = Tree::new(MQTT);
        for (mut levels, ends_in_hash, target, inserts) in operations {
            if ends_in_hash || levels.is_empty() {
                levels.push("#");
            }
            let text = levels.join("/");
            if inserts {
                let inserted = tree.insert(&filter(&text), entry(target));
                prop_assert_eq!(tree.filter_text(inserted.place), Some(text));
            } else if let Some(place) = tree.find(&filter(&text)) {
                tree.remove(place, TargetId(target));
            }
            check(&tree);
        }
    }

    #[test]
    fn invariants_hold_after_every_change_of_patterns(
        operations in vec((vec(select(&["a", "b", "longer", "*", "#", "#"][..]), 0..6), 0..3u32, any::<bool>()), 1..60),
    ) {
        let mut tree = Tree::new(AMQP);
        for (words, target, inserts) in operations {
            let text = words.join(".");
            let pattern = RoutingPattern::new(text.as_bytes()).unwrap();
            if inserts {
                let inserted = tree.insert(&pattern.path(), entry(target));
                let normalized = String::from_utf8(pattern.normalized().into_owned()).unwrap();
                prop_assert_eq!(tree.filter_text(inserted.place), Some(normalized));
            } else if let Some(place) = tree.find(&pattern.path()) {
                tree.remove(place, TargetId(target));
            }
            check(&tree);
        }
    }
}
