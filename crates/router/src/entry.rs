//! What look-ups find.

/// What a look-up returns, as the broker numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(pub u32);

/// One target of one filter, with whatever 32 bits the subscriber attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// Who gets the message.
    pub target: TargetId,
    /// Opaque to the index.
    pub options: u32,
}
