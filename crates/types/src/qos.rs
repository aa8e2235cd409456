//! Quality of service levels.

/// What delivery a message or subscription asks for (MQTT 5.0 §4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Qos {
    /// QoS 0: at most once, no acknowledgement.
    #[default]
    AtMostOnce = 0,
    /// QoS 1: at least once, one acknowledgement.
    AtLeastOnce = 1,
    /// QoS 2: exactly once, a two-step acknowledgement.
    ExactlyOnce = 2,
}

impl Qos {
    /// The level for the wire value `bits`; `None` for 3 and above, which no specification allows.
    #[inline]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }

    /// The wire value, 0 to 2.
    #[inline]
    pub const fn bits(self) -> u8 {
        self as u8
    }
}
