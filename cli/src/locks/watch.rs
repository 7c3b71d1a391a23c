//! `leasehold watch`: shows the locks live.

use std::time::SystemTime;

use leasehold::{LockInfo, LockPool};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::changes::Changes;
use super::table::Table;
use super::{all, screen, show, text, to_json, with_place};
use crate::args::{Store, Watch};
use crate::exit;
use crate::failure::Failure;
use crate::output;

/// Shows the locks until ctrl-c, or until the reader of standard output is gone. On a terminal the
/// table is redrawn repeatedly; elsewhere each change is a line.
pub(crate) async fn watch(store: &Store, options: &Watch, json: bool) -> Result<u8, Failure> {
    let pool = store.connect().await?;
    let mut watcher = Watcher {
        pool,
        options,
        json,
        drawn: !json && screen::is_there(),
        table: Table::new(None),
        changes: Changes::default(),
        trouble: None,
    };
    tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.map_err(|error| Failure::new(exit::NO, error.to_string()))?;
        }
        () = watcher.run() => {}
    }
    Ok(exit::SUCCESS)
}

struct Watcher<'a> {
    pool: LockPool,
    options: &'a Watch,
    json: bool,
    /// True if the table is drawn on a terminal.
    drawn: bool,
    table: Table,
    changes: Changes,
    /// The last reported error. `None` once the store has answered again.
    trouble: Option<String>,
}

impl Watcher<'_> {
    /// Watches the locks. Returns when the reader of standard output is gone.
    async fn run(&mut self) {
        let mut ticks = interval(self.options.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut clean = !self.drawn || screen::clear().is_ok();
        while clean && !screen::is_closed() {
            ticks.tick().await;
            let locks = all(&self.pool, &self.options.pattern).await;
            clean = match (locks, self.drawn) {
                (Ok(locks), true) => self.draw(&locks),
                (Ok(locks), false) => self.print(&locks),
                (Err(failure), _) => self.print_trouble(failure.text),
            };
        }
    }

    /// Draws the table. Returns false if the terminal is gone.
    fn draw(&mut self, locks: &[LockInfo]) -> bool {
        let now = SystemTime::now();
        let pattern = text::plain(&self.options.pattern);
        let many = if locks.len() == 1 {
            "lock matches"
        } else {
            "locks match"
        };
        let width = screen::width();
        let title = format!(
            "{} {many} `{pattern}` {}, {}; ctrl-c ends",
            locks.len(),
            text::place(&self.pool),
            humantime::format_rfc3339_seconds(now)
        );
        let mut lines = text::wrapped(&title, width.unwrap_or(usize::MAX));
        lines.push(String::new());
        self.table.fit(width);
        lines.extend(self.table.lines(locks, true, now));
        screen::draw(&lines).is_ok()
    }

    /// Prints the changes. Returns false if the reader of standard output is gone.
    fn print(&mut self, locks: &[LockInfo]) -> bool {
        let was_trouble = self.trouble.take().is_some();
        let now = SystemTime::now();
        let time = humantime::format_rfc3339_millis(now).to_string();
        let (changed, gone) = self.changes.look(locks);
        let mut lines = Vec::new();
        for key in gone {
            lines.push(if self.json {
                let gone = json!({ "time": time, "key": key, "lock": null });
                with_place(gone, &self.pool).to_string()
            } else {
                let (key, place) = (text::plain(&key), text::place(&self.pool));
                format!("{time}  {key}  free {place}")
            });
        }
        for lock in changed {
            lines.push(if self.json {
                let change = json!({ "time": time, "key": lock.key, "lock": to_json(lock) });
                with_place(change, &self.pool).to_string()
            } else {
                format!("{time}  {}", show::in_one_line(lock))
            });
        }
        if was_trouble {
            output::note(&format_args!("leasehold: the lock store answers again"));
        }
        lines.iter().all(|line| output::try_line(line).is_ok())
    }

    /// Reports an error of the store. Without a terminal, does not repeat the last reported error
    /// until the store has answered again. Returns false if the terminal is gone.
    fn print_trouble(&mut self, text: String) -> bool {
        if self.drawn {
            return screen::draw(&[text]).is_ok();
        }
        if self.trouble.as_ref() != Some(&text) {
            output::note(&format_args!("leasehold: {text}"));
            self.trouble = Some(text);
        }
        true
    }
}
