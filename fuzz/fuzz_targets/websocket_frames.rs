#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| meridian_fuzz::websocket::check_frames(input));
