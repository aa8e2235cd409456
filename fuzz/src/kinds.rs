//! Topic patterns and string prefixes, in any sequence of operations, against trying every one.

use crate::pattern::is_match;
use meridian_router::{Entry, MatchCache, PatternTree, PrefixIndex, RoutingPattern, TargetId};
use std::collections::BTreeMap;

/// Pattern or prefix to its targets with their options.
type Oracle = BTreeMap<Vec<u8>, BTreeMap<u32, u32>>;

/// Bytes that a look-up's cache may hold: few, so that results are dropped.
const CACHE_BYTES_MAX: usize = 1 << 10;

struct Kinds {
    patterns: PatternTree,
    /// By normalised form.
    pattern_oracle: Oracle,
    prefixes: PrefixIndex,
    prefix_oracle: Oracle,
    /// Results of look-ups by text, as a thread keeps them.
    cache: MatchCache<Vec<Entry>>,
}

/// Carries out `script`: each line is an operation, a digit, and a text.
///
/// ```text
/// i  insert target DIGIT at a pattern    p  insert target DIGIT at a prefix
/// r  remove target DIGIT from it         q  remove target DIGIT from it
/// k  look up a key                       t  look up a text, as it is and through the cache
/// ```
pub fn check_script(script: &[u8]) {
    let mut kinds = Kinds {
        patterns: PatternTree::new(),
        pattern_oracle: Oracle::new(),
        prefixes: PrefixIndex::new(),
        prefix_oracle: Oracle::new(),
        cache: MatchCache::new(CACHE_BYTES_MAX),
    };
    for line in script.split(|&byte| byte == b'\n') {
        let [operation, digit, text @ ..] = line else { continue };
        let target = u32::from(digit % 10);
        match operation {
            b'i' | b'r' => kinds.change_pattern(*operation == b'r', text, target),
            b'p' | b'q' => kinds.change_prefix(*operation == b'q', text, target),
            b'k' => kinds.check_key(text),
            _ => kinds.check_text(text),
        }
    }
    kinds.take_all();
}

/// Removes a target from an oracle.
fn forget(oracle: &mut Oracle, text: &[u8], target: u32) -> Option<u32> {
    let removed = oracle.get_mut(text).and_then(|targets| targets.remove(&target));
    oracle.retain(|_, targets| !targets.is_empty());
    removed
}

fn entries<'a>(matching: impl Iterator<Item = &'a BTreeMap<u32, u32>>) -> Vec<Entry> {
    let mut entries: Vec<Entry> =
        matching.flatten().map(|(&target, &options)| Entry { target: TargetId(target), options }).collect();
    entries.sort_unstable();
    entries
}

impl Kinds {
    fn change_pattern(&mut self, removes: bool, text: &[u8], target: u32) {
        let Ok(pattern) = RoutingPattern::new(text) else { return };
        let normalized = pattern.normalized().into_owned();
        if removes {
            let expected = forget(&mut self.pattern_oracle, &normalized, target);
            assert_eq!(self.patterns.remove(pattern, TargetId(target)), expected);
        } else {
            let options = text.len() as u32;
            let expected = self.pattern_oracle.entry(normalized).or_default().insert(target, options);
            assert_eq!(self.patterns.insert(pattern, TargetId(target), options), expected);
        }
        assert_eq!(self.patterns.pattern_count(), self.pattern_oracle.len());
    }

    fn change_prefix(&mut self, removes: bool, text: &[u8], target: u32) {
        if removes {
            let expected = forget(&mut self.prefix_oracle, text, target);
            assert_eq!(self.prefixes.remove(text, TargetId(target)), expected);
        } else {
            let held = self.prefix_oracle.entry(text.to_vec()).or_default();
            let options = held.get(&target).map_or(0, |options| options + 1);
            assert_eq!(self.prefixes.insert(text, TargetId(target), options), held.insert(target, options));
        }
        assert_eq!(self.prefixes.prefix_count(), self.prefix_oracle.len());
    }

    fn check_key(&self, key: &[u8]) {
        let mut found = Vec::new();
        self.patterns.matches(key, &mut found);
        found.sort_unstable();
        let matching = self.pattern_oracle.iter().filter(|(pattern, _)| is_match(pattern, key));
        assert_eq!(found, entries(matching.map(|(_, targets)| targets)), "targets of {key:?}");
    }

    fn check_text(&mut self, text: &[u8]) {
        let guard = self.prefixes.guard(text);
        let mut found = Vec::new();
        self.prefixes.matches(text, &mut found);
        found.sort_unstable();
        let matching = self.prefix_oracle.iter().filter(|(prefix, _)| text.starts_with(prefix));
        assert_eq!(found, entries(matching.map(|(_, targets)| targets)), "targets of {text:?}");
        if let Some(cached) = self.cache.get(0, text, |guard| self.prefixes.is_current(guard)) {
            assert_eq!(*cached, found, "a stale result of {text:?}");
        } else {
            let bytes = found.len() * size_of::<Entry>();
            self.cache.put(0, text, guard, found, bytes);
        }
        assert!(self.cache.bytes() <= CACHE_BYTES_MAX);
    }

    fn take_all(mut self) {
        let texts: Vec<Vec<u8>> = self.pattern_oracle.keys().cloned().collect();
        texts.iter().for_each(|text| self.check_key(text));
        for (text, targets) in self.pattern_oracle {
            let pattern = RoutingPattern::new(&text).expect("only valid patterns are kept");
            for (target, options) in targets {
                assert_eq!(self.patterns.remove(pattern, TargetId(target)), Some(options));
            }
        }
        assert_eq!((self.patterns.pattern_count(), self.patterns.entry_count()), (0, 0));
        assert_eq!(self.patterns.memory_bytes(), PatternTree::new().memory_bytes(), "all is given back");
        for (text, targets) in self.prefix_oracle {
            for (target, options) in targets {
                assert_eq!(self.prefixes.remove(&text, TargetId(target)), Some(options));
            }
        }
        assert_eq!((self.prefixes.prefix_count(), self.prefixes.entry_count()), (0, 0));
        assert_eq!(self.prefixes.memory_bytes(), PrefixIndex::new().memory_bytes(), "all is given back");
    }
}
