//! Tests of mistakes in options, URLs and keys. Every mistake must soon cause a typed error that
//! names the remedy and does not contain the password. Nothing may panic.

mod connecting;
mod environment;
mod impostor;
mod locking;

use std::time::{Duration, Instant};

use leasehold::LockError;
use leasehold_tests::lateness::Excuse;

/// Password in the URLs of these tests. No text may contain it.
const CANARY: &str = "canary-hunter2";
const LIMIT: Duration = Duration::from_secs(2);

/// Start of a call whose duration is checked. The call's time limit is extended by the measured
/// delays of a busy machine.
#[derive(Debug, Clone, Copy)]
struct Began {
    at: Instant,
    excuse: Excuse,
}

impl Began {
    fn now() -> Self {
        Self {
            at: Instant::now(),
            excuse: Excuse::begin(),
        }
    }

    /// Fails unless the call has ended within `limit`.
    #[track_caller]
    fn expect_within(self, limit: Duration, what: &str) {
        let took = self.at.elapsed();
        assert!(took < limit + self.excuse.so_far(), "{what}: took {took:?}");
    }
}

/// Returns the name of the variant, and for an unavailable store also its code, as in
/// `Unavailable/io`.
fn kind(error: &LockError) -> String {
    if let LockError::Unavailable { source } = error {
        return format!("Unavailable/{}", source.code());
    }
    leasehold_tests::variant::of(error).to_owned()
}

/// Checks the variant of the error, and that its text names the remedy. Also checks that the error
/// came in time and contains no secret.
#[track_caller]
fn expect(what: &str, error: &LockError, variants: &[&str], expected: &[&str], started: Began) {
    started.expect_within(LIMIT, what);
    let kind = kind(error);
    assert!(variants.contains(&&*kind), "{what}: {kind}: {error}");
    let text = error.to_string();
    for fragment in expected {
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
