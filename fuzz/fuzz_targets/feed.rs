#![no_main]

libfuzzer_sys::fuzz_target!(|input: &str| meridian_fuzz::feed::check_script(input));
