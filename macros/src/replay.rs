//! Rules for `replay` and `fingerprint` in combination with other options.

use crate::args::Args;
use crate::diag::{Diagnostics, Message};

/// Refuses options that contradict `replay`, because a kept result belongs to one key and to one
/// holder of an exclusive lock. Also refuses `replay` if the cargo feature `replay` is off.
pub(crate) fn replay_is_alone(args: &Args, diagnostics: &Diagnostics) {
    let Some(replay) = args.name_of("replay") else {
        return;
    };
    if !cfg!(feature = "replay") {
        let message = Message::new("`replay` needs the feature `replay` of the crate `leasehold`")
            .help("write `leasehold = { version = \"0.1\", features = [\"replay\"] }` in `Cargo.toml`");
        diagnostics.error(replay.span(), &message);
    }
    for (option, help) in [
        (
            "cooldown",
            "with `replay` a later call gets the first result, so it need not be refused; leave \
             `cooldown` out",
        ),
        (
            "shared",
            "a shared lock has many readers, but `replay` keeps one result; leave one of them out",
        ),
        (
            "permits",
            "a lock with permits has several holders, but `replay` keeps one result; leave one of \
             them out",
        ),
        (
            "reentrant",
            "a nested call runs inside the lock of its caller, which keeps one result; leave one of them out",
        ),
    ] {
        if let Some(name) = args.name_of(option) {
            let what = format!("`replay` and `{option}` cannot be combined");
            diagnostics.error(name.span(), &Message::new(what).help(help));
        }
    }
    if args.key.as_ref().is_some_and(|keys| keys.len() > 1) {
        let message =
            Message::new("`replay` keeps the result of one key, but this lock has several")
                .help("lock one key that stands for all of them");
        let key = args.name_of("key").unwrap_or(replay);
        diagnostics.error(key.span(), &message);
    }
}

pub(crate) fn fingerprint_needs_replay(args: &Args, diagnostics: &Diagnostics) {
    if let (Some(fingerprint), false) = (args.name_of("fingerprint"), args.attempted("replay")) {
        let message =
            Message::new("`fingerprint` belongs to a kept result, but this call keeps none")
                .help("add `replay = \"24h\"`, or leave `fingerprint` out");
        diagnostics.error(fingerprint.span(), &message);
    }
}
