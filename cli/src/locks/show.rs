//! `leasehold show`: everything about one lock.

use std::time::SystemTime;

use leasehold::{Fence, Holder, LockInfo};

use super::{text, to_json};
use crate::args::Store;
use crate::exit;
use crate::failure::Failure;
use crate::output;

/// Prints everything the store knows about a lock, held or free.
pub(crate) async fn show(store: &Store, key: &str, json: bool) -> Result<u8, Failure> {
    let pool = store.connect().await?;
    let lock = pool.inspect(key).await?;
    if json {
        output::line(&to_json(&lock));
    } else {
        output::line(&describe(&lock, SystemTime::now()).join("\n"));
    }
    Ok(exit::SUCCESS)
}

/// Returns a line for each known property.
pub(super) fn describe(lock: &LockInfo, now: SystemTime) -> Vec<String> {
    let mut lines = vec![
        line("key", &text::plain(&lock.key)),
        line("state", &text::kind(lock)),
    ];
    for holder in &lock.holders {
        lines.extend(holder_lines(holder, now));
    }
    if let Some(kept) = text::until(lock.kept_until, now) {
        lines.push(line("kept for", &text::span(kept)));
    }
    for waiter in &lock.waiting {
        let name = text::owner(waiter.owner.as_ref());
        lines.push(line("waiting", &with_since(name, waiter.since, now)));
    }
    if let Some(fence) = lock.fence {
        lines.push(line("fence", &fence.get().to_string()));
    }
    if let Some(nodes) = lock.nodes {
        lines.push(line("nodes", &format!("{nodes} answered")));
    }
    lines
}

fn holder_lines(holder: &Holder, now: SystemTime) -> Vec<String> {
    let name = text::holder(holder);
    let mut lines = vec![line("holder", &with_since(name, holder.since, now))];
    let expires = holder
        .expires_in
        .map_or_else(|| "no known end".to_owned(), text::span);
    lines.push(line("  expires in", &expires));
    if let Some(fence) = holder.fence.map(Fence::get) {
        lines.push(line("  fence", &fence.to_string()));
    }
    if let Some(nodes) = holder.nodes {
        lines.push(line("  on nodes", &nodes.to_string()));
    }
    lines
}

fn with_since(name: String, since: Option<SystemTime>, now: SystemTime) -> String {
    match since {
        Some(time) => format!(
            "{name}, for {}, since {}",
            text::or_dash(text::since(since, now)),
            humantime::format_rfc3339_seconds(time)
        ),
        None => name,
    }
}

fn line(name: &str, value: &str) -> String {
    format!("{name:<14}{value}")
}

/// Describes a lock in one line, without the values that change all the time.
pub(super) fn in_one_line(lock: &LockInfo) -> String {
    let mut line = format!("{}  {}", text::plain(&lock.key), text::kind(lock));
    for holder in &lock.holders {
        line.push_str("  ");
        line.push_str(&text::holder(holder));
        if let Some(fence) = holder.fence {
            line.push_str(", fence ");
            line.push_str(&fence.get().to_string());
        }
    }
    if !lock.waiting.is_empty() {
        let waiting = lock.waiting.len();
        line = format!("{line}  {waiting} waiting");
    }
    line
}
