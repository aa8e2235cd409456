//! SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK.

use super::ack::Explanation;
use super::sink::{Block, Sink};
use crate::packet::{FilterRequest, Suback, Subscribe, Unsubscribe};
use crate::properties::PropertyId;
use crate::{ReasonCode, Version};

pub(super) struct SubscribeBody<'a>(pub(super) &'a Subscribe<'a>, pub(super) Version);

impl Block for SubscribeBody<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(subscribe, version) = self;
        sink.u16(subscribe.packet_id);
        if *version == Version::V5 {
            sink.block(&SubscribeProperties(subscribe));
        }
        for request in &subscribe.filters {
            sink.text(request.filter);
            sink.byte(options(request, *version));
        }
    }
}

fn options(request: &FilterRequest<'_>, version: Version) -> u8 {
    match version {
        Version::V311 => request.qos.bits(),
        Version::V5 => {
            request.qos.bits()
                | u8::from(request.no_local) << 2
                | u8::from(request.retain_as_published) << 3
                | (request.retain_handling as u8) << 4
        }
    }
}

struct SubscribeProperties<'a>(&'a Subscribe<'a>);

impl Block for SubscribeProperties<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(subscribe) = self;
        if let Some(id) = subscribe.subscription_id {
            sink.byte(PropertyId::SubscriptionId as u8);
            sink.varint(id as usize);
        }
        sink.user_properties(subscribe.user_properties.iter().copied());
    }
}

pub(super) struct SubackBody<'a>(pub(super) &'a Suback<'a>, pub(super) Version);

impl Block for SubackBody<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(suback, version) = self;
        write_head(suback, *version, sink);
        for reason in &suback.reasons {
            let in_v311 = if reason.is_error() { ReasonCode::UnspecifiedError } else { *reason };
            sink.byte(if *version == Version::V5 { reason.byte() } else { in_v311.byte() });
        }
    }
}

pub(super) struct UnsubackBody<'a>(pub(super) &'a Suback<'a>, pub(super) Version);

impl Block for UnsubackBody<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(unsuback, version) = self;
        write_head(unsuback, *version, sink);
        if *version == Version::V5 {
            unsuback.reasons.iter().for_each(|reason| sink.byte(reason.byte()));
        }
    }
}

fn write_head(suback: &Suback<'_>, version: Version, sink: &mut impl Sink) {
    sink.u16(suback.packet_id);
    if version == Version::V5 {
        sink.block(&Explanation { text: suback.reason_string, user_properties: &suback.user_properties });
    }
}

pub(super) struct UnsubscribeBody<'a>(pub(super) &'a Unsubscribe<'a>, pub(super) Version);

impl Block for UnsubscribeBody<'_> {
    fn write(&self, sink: &mut impl Sink) {
        let Self(unsubscribe, version) = self;
        sink.u16(unsubscribe.packet_id);
        if *version == Version::V5 {
            sink.block(&Explanation { text: None, user_properties: &unsubscribe.user_properties });
        }
        unsubscribe.filters.iter().for_each(|filter| sink.text(filter));
    }
}
