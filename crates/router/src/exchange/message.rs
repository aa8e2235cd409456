//! What an exchange looks at in a message.

use super::HeaderValue;

/// A header or a binding argument: its name and its value.
pub type Field<'a> = (&'a [u8], HeaderValue<'a>);

/// A property of a message that a consistent hash can be taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Property {
    /// `message-id`.
    MessageId,
    /// `correlation-id`.
    CorrelationId,
    /// `timestamp`.
    Timestamp,
}

/// Headers and properties of a message, decoded when an exchange asks for them and not before.
///
/// Exchanges that go by the routing key alone never ask. Implement it over the encoded properties of a protocol; `()`
/// has neither headers nor properties, and [`Headers`] is a list.
pub trait Attributes {
    /// Shows each header. Of several with one name the last counts.
    fn visit_headers<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], HeaderValue<'a>));

    /// A property, [`HeaderValue::Void`] if the message has none such.
    fn property(&self, property: Property) -> HeaderValue<'_>;
}

impl Attributes for () {
    fn visit_headers<'a>(&'a self, _: &mut dyn FnMut(&'a [u8], HeaderValue<'a>)) {}

    fn property(&self, _: Property) -> HeaderValue<'_> {
        HeaderValue::Void
    }
}

/// Headers in a list, and no properties.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'h>(pub &'h [Field<'h>]);

impl Attributes for Headers<'_> {
    fn visit_headers<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], HeaderValue<'a>)) {
        self.0.iter().for_each(|&(name, value)| visit(name, value));
    }

    fn property(&self, _: Property) -> HeaderValue<'_> {
        HeaderValue::Void
    }
}

/// A message as exchanges see it; all of it borrowed.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// The routing key.
    pub key: &'a [u8],
    /// More routing keys: the values of RabbitMQ's `CC` and `BCC` headers. Direct and topic exchanges go by each of
    /// them, hashes by [`key`](Self::key) alone.
    pub more_keys: &'a [&'a [u8]],
    /// Headers and properties.
    pub attributes: &'a dyn Attributes,
}

impl<'a> Message<'a> {
    /// A message with a routing key and nothing else.
    pub const fn new(key: &'a [u8]) -> Self {
        Self { key, more_keys: &[], attributes: &() }
    }

    /// The message with these headers and properties.
    pub const fn with(self, attributes: &'a dyn Attributes) -> Self {
        Self { attributes, ..self }
    }

    /// All routing keys.
    #[inline]
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::once(self.key).chain(self.more_keys.iter().copied())
    }
}
