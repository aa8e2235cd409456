#![no_main]

libfuzzer_sys::fuzz_target!(|input: &str| meridian_fuzz::index::check_script(input));
