//! The routing index and the topic store against trying everything.

use meridian_router::{Entry, FilterId, Index, TargetId, TopicStore};
use meridian_types::{TopicFilter, TopicName};
use std::collections::BTreeMap;

/// Index and store, and what they must agree with.
struct Pair {
    index: Index,
    /// Filter to its id and its targets with their options.
    filters: BTreeMap<String, (FilterId, BTreeMap<u32, u32>)>,
    store: TopicStore<u32>,
    topics: BTreeMap<String, u32>,
}

/// Carries out `script`: each line is an operation, a digit, and a filter or topic.
///
/// ```text
/// i  insert target DIGIT at a filter      p  put value DIGIT at a topic
/// r  remove target DIGIT from a filter    d  delete the topic's value
/// x  the same by the filter's id          v  visit the topics that match a filter
/// m  look up a topic
/// ```
pub fn check_script(script: &str) {
    let mut pair = Pair {
        index: Index::new(),
        filters: BTreeMap::new(),
        store: TopicStore::new(),
        topics: BTreeMap::new(),
    };
    for line in script.lines() {
        let mut letters = line.chars();
        let (Some(operation), Some(digit)) = (letters.next(), letters.next()) else { continue };
        let (text, number) = (letters.as_str(), digit as u32 % 10);
        match operation {
            'p' | 'd' | 'm' => {
                if let Ok(topic) = TopicName::new(text) {
                    pair.apply_to_topic(operation, topic, number);
                }
            }
            _ => {
                if let Ok(filter) = TopicFilter::new(text) {
                    pair.apply_to_filter(operation, filter, number);
                }
            }
        }
    }
    pair.check_all();
}

impl Pair {
    fn apply_to_topic(&mut self, operation: char, topic: TopicName<'_>, number: u32) {
        let text = topic.as_str();
        match operation {
            'p' => {
                assert_eq!(self.store.insert(topic, number), self.topics.insert(text.to_owned(), number));
            }
            'd' => assert_eq!(self.store.remove(topic), self.topics.remove(text)),
            _ => self.check_topic(topic),
        }
        assert_eq!(self.store.get(topic), self.topics.get(text));
    }

    fn apply_to_filter(&mut self, operation: char, filter: TopicFilter<'_>, number: u32) {
        let text = filter.as_str();
        match operation {
            'i' => {
                let options = number + 100;
                let (id, previous) = self.index.insert(filter, TargetId(number), options);
                let (known, targets) = self.filters.entry(text.to_owned()).or_insert((id, BTreeMap::new()));
                assert_eq!(*known, id, "the id of {text:?} changed");
                assert_eq!(previous, targets.insert(number, options));
            }
            'r' => {
                let expected = self.forget(text, number);
                assert_eq!(self.index.remove(filter, TargetId(number)), expected);
            }
            'x' => {
                let Some(&(id, _)) = self.filters.get(text) else { return };
                let expected = self.forget(text, number).map(|(_, options)| options);
                assert_eq!(self.index.remove_by_id(id, TargetId(number)), expected);
            }
            _ => self.check_filter(filter),
        }
    }

    fn forget(&mut self, text: &str, target: u32) -> Option<(FilterId, u32)> {
        let (id, targets) = self.filters.get_mut(text)?;
        let removed = targets.remove(&target).map(|options| (*id, options));
        if targets.is_empty() {
            self.filters.remove(text);
        }
        removed
    }

    fn check_topic(&self, topic: TopicName<'_>) {
        let mut found = Vec::new();
        self.index.matches(topic, &mut found);
        let mut found: Vec<_> = found.iter().map(|Entry { target, options }| (target.0, *options)).collect();
        let matching = self.filters.iter().filter(|(text, _)| filter_of(text).matches(topic));
        let mut expected: Vec<_> = matching.flat_map(|(_, (_, targets))| targets.clone()).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "targets of {:?}", topic.as_str());
    }

    fn check_filter(&self, filter: TopicFilter<'_>) {
        let mut found = Vec::new();
        self.store.visit_matching(filter, &mut |value| {
            found.push(*value);
            true
        });
        let matching = self.topics.iter().filter(|(text, _)| filter.matches(name_of(text)));
        let mut expected: Vec<_> = matching.map(|(_, value)| *value).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "topics that match {:?}", filter.as_str());
    }

    fn check_all(&self) {
        assert_eq!(self.index.filter_count(), self.filters.len());
        assert_eq!(
            self.index.entry_count(),
            self.filters.values().map(|(_, targets)| targets.len()).sum::<usize>()
        );
        assert_eq!(self.store.len(), self.topics.len());
        self.topics.keys().for_each(|text| self.check_topic(name_of(text)));
        for (text, (id, _)) in &self.filters {
            assert_eq!(self.index.filter_text(*id).as_ref(), Some(text));
            self.check_filter(filter_of(text));
        }
    }
}

fn filter_of(text: &str) -> TopicFilter<'_> {
    TopicFilter::new(text).expect("only valid filters are kept")
}

fn name_of(text: &str) -> TopicName<'_> {
    TopicName::new(text).expect("only valid names are kept")
}
