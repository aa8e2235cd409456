#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| meridian_fuzz::codec::check_stream(
    meridian_mqtt::Version::V5,
    input
));
