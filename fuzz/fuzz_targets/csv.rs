#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| patra_fuzz::csv::check(data));
