//! Whatever is wrong, the answer is a typed error that says what to do: soon, without a panic, and
//! without the password.

mod connecting;
mod environment;
mod impostor;
mod locking;

use std::time::{Duration, Instant};

use leasehold::LockError;
use leasehold_tests::lateness::Excuse;

/// In every URL; no text may show it.
const CANARY: &str = "canary-hunter2";
const LIMIT: Duration = Duration::from_secs(2);

/// When a call began; a busy machine has an excuse for what it adds.
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

    /// The answer came within `limit`.
    #[track_caller]
    fn expect_within(self, limit: Duration, what: &str) {
        let took = self.at.elapsed();
        assert!(took < limit + self.excuse.so_far(), "{what}: took {took:?}");
    }
}

/// The variant, and for an unavailable store its code, as `Unavailable/io`.
fn kind(error: &LockError) -> String {
    if let LockError::Unavailable { source } = error {
        return format!("Unavailable/{}", source.code());
    }
    leasehold_tests::variant::of(error).to_owned()
}

/// Checks the variant, that the text says what to do, that it came in time, and that it keeps
/// secrets.
#[track_caller]
fn expect(what: &str, error: &LockError, variants: &[&str], says: &[&str], started: Began) {
    started.expect_within(LIMIT, what);
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
