//! Short byte strings within whoever holds them, long ones shared.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes that need no memory of their own.
const SHORT_MAX: usize = 22;

/// A byte string that never changes. 24 bytes, and those of the string and 16 more on the heap if it has more than 22.
#[derive(Clone)]
pub(super) enum Bytes {
    Short { len: u8, bytes: [u8; SHORT_MAX] },
    Long(Arc<[u8]>),
}

impl Bytes {
    /// The same bytes that other threads may come to share, however few they are.
    pub(super) fn shared(&self) -> Arc<[u8]> {
        match self {
            Self::Short { .. } => Arc::from(&**self),
            Self::Long(bytes) => bytes.clone(),
        }
    }

    /// Bytes on the heap: an `Arc` keeps two counts before its content.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Short { .. } => 0,
            Self::Long(bytes) => bytes.len() + 2 * size_of::<usize>(),
        }
    }
}

impl From<&[u8]> for Bytes {
    fn from(from: &[u8]) -> Self {
        let mut bytes = [0; SHORT_MAX];
        match bytes.get_mut(..from.len()) {
            Some(room) => {
                room.copy_from_slice(from);
                Self::Short { len: from.len() as u8, bytes }
            }
            None => Self::Long(from.into()),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&**self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_every_length_are_kept_and_few_bytes_need_no_memory() {
        let text: Vec<u8> = (0..100).collect();
        for len in 0..text.len() {
            let bytes = Bytes::from(&text[..len]);
            assert_eq!(
                (&*bytes, &*bytes.clone(), &*bytes.shared()),
                (&text[..len], &text[..len], &text[..len])
            );
            assert_eq!(bytes.heap_bytes(), if len > SHORT_MAX { len + 16 } else { 0 });
        }
        assert_eq!(size_of::<Bytes>(), 24);
    }
}
