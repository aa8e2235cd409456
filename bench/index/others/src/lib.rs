//! Other indexes, as the harness wants them.
//!
//! Those without a lock of their own get one around all: that is what a broker with several threads would have to do.
//! `README.md` of the suite says what each does otherwise than MQTT asks.

mod hashmap;
mod quill;
mod topic_engine;
mod topic_tree;

use index_harness::Subject;

/// What is to be done with a row's index.
pub trait Action {
    /// Does it.
    fn with<S: Subject>(self);
}

/// The rows of this package.
pub const ROWS: [&str; 4] = ["mqtt_topic_tree", "mqtt-topic-engine", "quill-pubsub", "hashmap"];

/// Does `action` with the index of a row.
///
/// # Panics
/// If there is no such row.
pub fn with_row(row: &str, action: impl Action) {
    match row {
        "mqtt_topic_tree" => action.with::<topic_tree::TopicTree>(),
        "mqtt-topic-engine" => action.with::<topic_engine::TopicEngine>(),
        "quill-pubsub" => action.with::<quill::Quill>(),
        "hashmap" => action.with::<hashmap::Exact>(),
        _ => panic!("no row {row}; there are {ROWS:?}"),
    }
}
