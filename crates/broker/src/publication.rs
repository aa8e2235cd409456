//! A message on its way through a publish: borrowed from the read buffer until somebody has to keep it.

use bytes::Bytes;
use meridian_router::TargetId;
use meridian_types::{Instant, Message, Properties, Qos, memory};
use std::sync::Arc;

/// A message being published.
///
/// Its topic and payload borrow from the publisher's read buffer. The first target that must keep it (a queue, an
/// unacknowledged delivery, the retained store) makes an owned copy, which all others then share.
#[derive(Debug)]
pub struct Publication<'a> {
    /// A valid topic name.
    pub topic: &'a str,
    /// The application's bytes.
    pub payload: &'a [u8],
    /// As published.
    pub qos: Qos,
    /// As published; set on deliveries from the retained store.
    pub retain: bool,
    /// `None` if there are none.
    pub properties: Option<&'a Properties>,
    /// When it is of no use any more.
    pub expires: Instant,
    /// Who publishes; 0 if no target does.
    pub publisher: TargetId,
    /// A hash of the publisher's lasting name; 0 if it has none.
    pub client_hash: u64,
    /// The present.
    pub now: Instant,
    /// How many targets are being offered it: whether sharing its payload pays.
    pub fan_out: usize,
    kept: Option<Arc<Message>>,
    payload_kept: Option<Bytes>,
}

impl<'a> Publication<'a> {
    /// A message that arrives now. `expiry_secs` is its expiry interval, if it has one.
    pub fn new(topic: &'a str, payload: &'a [u8], now: Instant, expiry_secs: Option<u32>) -> Self {
        let expires = expiry_secs.map_or(Instant::NEVER, |secs| now.plus_secs(u64::from(secs)));
        Self {
            topic,
            payload,
            qos: Qos::AtMostOnce,
            retain: false,
            properties: None,
            expires,
            publisher: TargetId(0),
            client_hash: 0,
            now,
            fan_out: 1,
            kept: None,
            payload_kept: None,
        }
    }

    /// A kept message that is published (again): a will, a retained message, a redelivery.
    pub fn of_message(message: &'a Arc<Message>, now: Instant) -> Self {
        Self {
            topic: &message.topic,
            payload: &message.payload,
            qos: message.qos,
            retain: message.retain,
            properties: message.properties.as_deref(),
            expires: message.expires,
            publisher: TargetId(0),
            client_hash: message.client_hash,
            now,
            fan_out: 1,
            kept: Some(message.clone()),
            payload_kept: Some(message.payload.clone()),
        }
    }

    /// The message as something that can be kept. Cost: one copy at the first call, a reference count afterwards.
    pub fn message(&mut self) -> Arc<Message> {
        if let Some(kept) = &self.kept {
            return kept.clone();
        }
        let kept = Arc::new(Message {
            topic: self.topic.into(),
            payload: self.shared_payload(),
            qos: self.qos,
            retain: self.retain,
            properties: self.properties.map(|properties| Box::new(properties.clone())),
            received: self.now,
            expires: self.expires,
            client_hash: self.client_hash,
            held: Message::counted(self.topic, self.properties),
        });
        self.kept = Some(kept.clone());
        kept
    }

    /// The payload as something that outboxes can share. Cost: one copy at the first call.
    pub fn shared_payload(&mut self) -> Bytes {
        self.payload_kept.get_or_insert_with(|| memory::copy(self.payload)).clone()
    }

    /// Seconds of its expiry interval that remain, as [`Message::remaining_expiry_secs`] has them; `None` if it never
    /// expires.
    pub fn remaining_expiry_secs(&self) -> Option<u32> {
        if self.expires == Instant::NEVER {
            return None;
        }
        let millis = self.expires.since(self.now).as_millis();
        Some(u32::try_from(millis.div_ceil(1000)).unwrap_or(u32::MAX))
    }
}

/// The wire forms of the message being published, made once for each form and shared by all targets that want it.
/// The buffers are kept from one publish to the next.
#[derive(Debug, Default)]
pub struct Encodings {
    forms: Vec<Encoding>,
    used: usize,
}

/// One wire form.
#[derive(Debug, Default)]
pub struct Encoding {
    key: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// An offset into `bytes` whose meaning is the protocol's: where each copy differs.
    pub mark: usize,
}

impl Encodings {
    /// Forgets the forms of the last message.
    #[inline]
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// The form called `key` (protocol and flags, as the protocol numbers them), made by `make` if it is the first
    /// time. `make` appends to an empty buffer and returns the mark. Cost: a look at the few forms there are.
    #[inline]
    pub fn get(&mut self, key: u32, make: impl FnOnce(&mut Vec<u8>) -> usize) -> &Encoding {
        if let Some(index) = self.forms[..self.used].iter().position(|form| form.key == key) {
            return &self.forms[index];
        }
        if self.used == self.forms.len() {
            self.forms.push(Encoding::default());
        }
        let form = &mut self.forms[self.used];
        self.used += 1;
        form.key = key;
        form.bytes.clear();
        form.mark = make(&mut form.bytes);
        form
    }
}
