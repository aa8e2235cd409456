#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| meridian_fuzz::kinds::check_script(input));
