//! `leasehold release`: takes a lock away from its holder.

use std::io::{self, Write as _};
use std::time::{Duration, Instant, SystemTime};

use leasehold::__private::may_be_held_by;
use leasehold::{Holder, LockInfo, LockPool};
use serde_json::json;

use super::{text, to_json, with_place};
use crate::args::{Release, Store};
use crate::exit;
use crate::failure::Failure;
use crate::output;

/// Tolerance for the time that an inspection takes, in a comparison of the ends of two locks.
const READING: Duration = Duration::from_millis(50);

/// Takes a lock away from its holders, after confirmation. The exit code shows if the lock was
/// held. A key on a minority of the nodes is removed, but counts as free: its process may still be
/// acquiring the lock.
pub(crate) async fn release(store: &Store, options: &Release, json: bool) -> Result<u8, Failure> {
    let pool = store.connect().await?;
    let key = options.key.as_str();
    if !options.yes && !is_confirmed(&pool, key).await? {
        return Ok(free(&pool, key, json));
    }
    let was = pool.force_release(key).await?;
    let Some(was) = was.filter(LockInfo::is_taken) else {
        return Ok(free(&pool, key, json));
    };
    if json {
        let answer = json!({ "key": key, "released": true, "was": to_json(&was) });
        output::line(&with_place(answer, &pool));
    } else {
        output::line(&format_args!("released {}", sentence(&was)));
    }
    Ok(exit::SUCCESS)
}

/// Asks the user for a confirmation. Asks again if the lock has changed meanwhile. Returns false if
/// the lock is free, and fails if the user does not agree.
async fn is_confirmed(pool: &LockPool, key: &str) -> Result<bool, Failure> {
    let mut agreed = None;
    loop {
        let lock = pool.inspect(key).await?;
        if !lock.is_taken() {
            return Ok(false);
        }
        if agreed.is_some_and(|(agreed, since)| covers(&agreed, since, &lock)) {
            return Ok(true);
        }
        let shown = Instant::now();
        if !agrees(&lock) {
            return Err(Failure::new(
                exit::NO,
                format!("the lock `{}` was not released", text::plain(key)),
            ));
        }
        agreed = Some((lock, shown));
    }
}

/// True if an agreement to release the lock `agreed`, as it was at `shown`, also holds for its
/// present state `now`: it has no other holders. A lock without holders must be kept or reserved as
/// before. A process on a minority of the nodes, silent ones included, does not hold the lock.
fn covers(agreed: &LockInfo, shown: Instant, now: &LockInfo) -> bool {
    let may_hold = |holder: &&Holder| may_be_held_by(now, holder);
    let holders: Vec<&Holder> = now.holders.iter().filter(may_hold).collect();
    if holders.is_empty() {
        return (agreed.state, agreed.fence) == (now.state, now.fence);
    }
    let ends = |holder: &Holder, at: Instant| holder.expires_in.map(|left| at + left);
    let same = |a: &Holder, b: &Holder| {
        let marks = (a.fence, &a.owner, a.foreign) == (b.fence, &b.owner, b.foreign);
        marks
            && match (a.fence, a.foreign) {
                (Some(_), _) => true,
                // A client without leasehold leaves no other mark of its lock than its end.
                (None, true) => match (ends(a, shown + READING), ends(b, Instant::now())) {
                    (Some(agreed), Some(now)) => now <= agreed,
                    (agreed, now) => agreed.is_none() && now.is_none(),
                },
                // The same function of the same process may hold the lock again.
                (None, false) => a.since == b.since,
            }
    };
    let is_agreed = |holder: &&Holder| agreed.holders.iter().any(|known| same(known, holder));
    holders.iter().all(is_agreed)
}

/// Reports that the lock is free.
fn free(pool: &LockPool, key: &str, json: bool) -> u8 {
    if json {
        let answer = json!({ "key": key, "released": false, "was": null });
        output::line(&with_place(answer, pool));
    } else {
        let (key, place) = (text::plain(key), text::place(pool));
        output::note(&format_args!("leasehold: the lock `{key}` is free {place}"));
    }
    exit::NO
}

/// Asks the user on standard error, so that standard output contains only the result. A missing
/// answer counts as a no.
fn agrees(lock: &LockInfo) -> bool {
    let question = format!(
        "Take away {}?\nUnfinished work may be cut short, and requests already sent may still take \
         effect. [y/N] ",
        sentence(lock)
    );
    let mut error = io::stderr();
    if write!(error, "{question}")
        .and_then(|()| error.flush())
        .is_err()
    {
        return false;
    }
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes" | "Yes")
}

/// Describes the lock and its holders.
fn sentence(lock: &LockInfo) -> String {
    let now = SystemTime::now();
    let holders = lock.holders.iter().map(|holder| {
        let name = text::holder(holder);
        match text::since(holder.since, now) {
            Some(since) => format!("{name} for {}", text::span(since)),
            None => name,
        }
    });
    let holders: Vec<String> = holders.collect();
    let key = text::plain(&lock.key);
    if holders.is_empty() {
        format!("`{key}`, which no process holds: {}", text::kind(lock))
    } else {
        format!("`{key}`, held by {}", holders.join(" and by "))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use leasehold_tests::quorum::Quorum;
    use leasehold_tests::room;

    use super::*;
    use crate::args::{Cli, Command};

    /// One of three nodes has the key of a lock, and then two have it. Fails if a minority counts
    /// as a held lock, or a majority as a free one.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_key_on_a_minority_is_no_lock() {
        let _room = room::enter();
        let nodes = Quorum::young(3);
        let (probes, url) = (nodes.probes(), nodes.url());
        let cli = Cli::parse_from([
            "leasehold",
            "--url",
            url.as_str(),
            "--io-timeout",
            "10s",
            "release",
            "job",
            "--yes",
        ]);
        let Command::Release(options) = cli.command else {
            panic!("another command");
        };
        for (count, code) in [(1, exit::NO), (2, exit::SUCCESS)] {
            for probe in &probes[..count] {
                probe.overwrite("job", "theirs", Duration::from_secs(600));
            }
            let ended = release(&cli.store, &options, false).await;
            assert_eq!(ended.expect("most nodes answer"), code, "{count} nodes");
            let left = probes.iter().filter(|probe| probe.get("job").is_some());
            assert_eq!(left.count(), 0, "{count} nodes");
        }
    }
}
