#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| meridian_fuzz::exchanges::check_script(input));
