//! The grammar of topic patterns and a match, against a second definition of both.

use meridian_router::{PatternError, PatternTree, RoutingPattern, TargetId};

/// Word pairs that the definition may compare in one run.
const PAIRS_MAX: usize = 1 << 20;

/// Checks a pattern and a key, one per line.
pub fn check_match(input: &[u8]) {
    let (pattern, key) = match input.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (input, &[][..]),
    };
    let routing = match RoutingPattern::new(pattern) {
        Ok(routing) => routing,
        Err(PatternError::Null) => return assert!(pattern.contains(&0)),
        Err(PatternError::TooLong) => return assert!(pattern.len() > 65_535),
        Err(error) => panic!("an unknown error: {error}"),
    };
    assert!(!pattern.contains(&0) && pattern.len() <= 65_535);
    if words(pattern).len() * words(key).len() > PAIRS_MAX {
        return;
    }
    let expected = is_match(pattern, key);
    let normalized = routing.normalized();
    assert_eq!(is_match(&normalized, key), expected, "the normalised form matches the same");
    let again = RoutingPattern::new(&normalized).expect("a normalised pattern is one");
    assert_eq!(again.normalized(), normalized, "one form stays as it is");

    let mut tree = PatternTree::new();
    tree.insert(routing, TargetId(1), 7);
    let mut out = Vec::new();
    tree.matches(key, &mut out);
    assert_eq!(out.len(), usize::from(expected), "a match of one pattern is one entry");
    assert_eq!(tree.remove(again, TargetId(1)), Some(7), "either form names the pattern");
    assert_eq!(tree.entry_count(), 0);
}

/// The words of a key or pattern; the empty text has none.
fn words(text: &[u8]) -> Vec<&[u8]> {
    if text.is_empty() { Vec::new() } else { text.split(|&byte| byte == b'.').collect() }
}

/// Whether a pattern matches a key: row by row, which beginnings of the key each beginning of the pattern matches.
pub(crate) fn is_match(pattern: &[u8], key: &[u8]) -> bool {
    let key = words(key);
    let mut row = vec![false; key.len() + 1];
    row[0] = true;
    for word in words(pattern) {
        let before = row.clone();
        for taken in 0..row.len() {
            let shorter = taken.checked_sub(1);
            row[taken] = match word {
                b"#" => before[taken] || shorter.is_some_and(|shorter| row[shorter]),
                _ => shorter.is_some_and(|shorter| before[shorter] && (word == b"*" || word == key[shorter])),
            };
        }
    }
    row[key.len()]
}
