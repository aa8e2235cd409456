#![no_main]

libfuzzer_sys::fuzz_target!(|input: &str| {
    let (filter, topic) = input.split_once('\n').unwrap_or((input, input));
    meridian_fuzz::topic::check_match(filter, topic);
});
