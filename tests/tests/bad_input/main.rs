//! Whatever is wrong, the answer is a typed error that says what to do: soon, without a panic, and
//! without the password.

mod connecting;
mod environment;
mod impostor;
mod locking;

use std::time::{Duration, Instant};

use leasehold::LockError;

/// In every URL; no text may show it.
const CANARY: &str = "canary-hunter2";
const LIMIT: Duration = Duration::from_secs(2);

/// The variant, and for an unavailable store its code, as `Unavailable/io`.
fn kind(error: &LockError) -> String {
    if let LockError::Unavailable { source } = error {
        return format!("Unavailable/{}", source.code());
    }
    let text = format!("{error:?}");
    text.chars().take_while(|c| c.is_alphanumeric()).collect()
}

/// Checks the variant, that the text says what to do, that it came in time, and that it keeps secrets.
#[track_caller]
fn expect(what: &str, error: &LockError, variants: &[&str], says: &[&str], started: Instant) {
    let took = started.elapsed();
    assert!(took < LIMIT, "{what}: took {took:?}");
    let kind = kind(error);
    assert!(variants.contains(&&*kind), "{what}: {kind}: {error}");
    let text = error.to_string();
    for fragment in says {
        assert!(
            text.contains(fragment),
            "{what}: no {fragment:?} in {text:?}"
        );
    }
    assert!(
        !text.ends_with('.') && !text.contains('\n'),
        "{what}: {text:?}"
    );
    for shown in [text, format!("{error:?}"), format!("{error:#?}")] {
        assert!(
            !shown.contains(CANARY),
            "{what}: shows the password: {shown}"
        );
    }
}
