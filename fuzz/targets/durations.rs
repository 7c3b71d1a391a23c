//! Durations as the macro reads them.
#![no_main]
#![allow(dead_code, reason = "the macro uses the rest")]

#[path = "../../macros/src/diag.rs"]
mod diag;
#[path = "../../macros/src/duration.rs"]
mod duration;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    match duration::parse(text) {
        Ok(millis) => assert_eq!(duration::parse(&duration::display(millis)), Ok(millis)),
        Err(message) => {
            let help = message.help.as_deref().unwrap_or_default();
            let is_suggested = help.starts_with("did you mean \"");
            assert!(
                !is_suggested || duration::suggested(&message).is_some(),
                "{text}: {message:?} suggests what is refused"
            );
        }
    }
});
