#![no_main]

libfuzzer_sys::fuzz_target!(|input: &str| meridian_fuzz::algebra::check_summary(input));
