//! The named limits of the protocols and their defaults. Operators change defaults in the configuration.

/// The longest UTF-8 string a protocol here can carry, in bytes (MQTT 5.0 §1.5.4).
pub const STRING_BYTES_MAX: usize = 65_535;

/// The most levels a topic or filter may have. A deeper one is refused: each level costs a step in the index.
pub const TOPIC_LEVELS_MAX: usize = 128;

/// The largest packet MQTT can express: one type byte, four length bytes, 268,435,455 bytes of body.
pub const MQTT_PACKET_BYTES_MAX: usize = 268_435_460;

/// The largest subscription identifier (MQTT 5.0 §3.8.2.1.2).
pub const SUBSCRIPTION_ID_MAX: u32 = 268_435_455;
