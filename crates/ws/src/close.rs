//! Close frames: their codes and what they may carry (RFC 6455 §7.4).

use crate::Error;

/// The longest payload of a control frame, in bytes (RFC 6455 §5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// Why a connection is closed. Any code that may travel in a Close frame; what it means is in RFC 6455 §7.4.1 and
/// the IANA registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CloseCode(u16);

impl CloseCode {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// The peer goes away: a server shuts down, a page is left.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// A kind of data that is not accepted here, such as text where binary is needed.
    pub const UNSUPPORTED_DATA: Self = Self(1003);
    /// Data that is not what its frame says, such as text that is not UTF-8.
    pub const INVALID_PAYLOAD: Self = Self(1007);
    /// A policy was broken, and no other code fits.
    pub const POLICY_VIOLATION: Self = Self(1008);
    /// Too large to be processed.
    pub const TOO_BIG: Self = Self(1009);
    /// The server met something it did not expect.
    pub const INTERNAL_ERROR: Self = Self(1011);

    /// The code for a value from the wire; `None` if the value must not travel: below 1000, reserved (1004, 1005,
    /// 1006, 1015), unassigned (1016 to 2999) or above 4999.
    pub const fn from_u16(value: u16) -> Option<Self> {
        match value {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Some(Self(value)),
            _ => None,
        }
    }

    /// The wire value.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl std::fmt::Display for CloseCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What a Close frame says. Borrows from the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// Why.
    pub code: CloseCode,
    /// In words; often empty. At most 123 bytes.
    pub reason: &'a str,
}

impl<'a> Close<'a> {
    /// Reads the payload of a Close frame; `None` if it is empty, which means "no code given".
    ///
    /// # Errors
    /// [`Error::BadCloseCode`] if there is one byte only or the code must not travel; [`Error::BadCloseReason`] if
    /// the reason is not UTF-8.
    pub fn parse(payload: &'a [u8]) -> Result<Option<Self>, Error> {
        let Some((code, reason)) = payload.split_first_chunk::<2>() else {
            return if payload.is_empty() { Ok(None) } else { Err(Error::BadCloseCode { value: None }) };
        };
        let value = u16::from_be_bytes(*code);
        let code = CloseCode::from_u16(value).ok_or(Error::BadCloseCode { value: Some(value) })?;
        let reason = std::str::from_utf8(reason).map_err(|_| Error::BadCloseReason)?;
        Ok(Some(Self { code, reason }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_codes_that_may_travel_are_accepted() {
        for value in [1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 4999] {
            assert_eq!(CloseCode::from_u16(value).map(CloseCode::get), Some(value));
        }
        for value in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_535] {
            assert_eq!(CloseCode::from_u16(value), None, "{value}");
        }
    }

    #[test]
    fn close_payloads_are_empty_or_a_code_and_utf8() {
        assert_eq!(Close::parse(b""), Ok(None));
        let close = Close::parse(b"\x03\xe8bye").unwrap().unwrap();
        assert_eq!((close.code, close.reason), (CloseCode::NORMAL, "bye"));
        assert_eq!(Close::parse(b"\x03"), Err(Error::BadCloseCode { value: None }));
        assert_eq!(Close::parse(b"\x03\xed"), Err(Error::BadCloseCode { value: Some(1005) }));
        assert_eq!(Close::parse(b"\x03\xe8\xff"), Err(Error::BadCloseReason));
    }
}
