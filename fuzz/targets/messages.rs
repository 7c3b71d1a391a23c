#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| leasehold::__test::foreign::messages(bytes));
