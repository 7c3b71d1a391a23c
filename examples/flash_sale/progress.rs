//! A progress bar on a terminal, for sales that take more than a second.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Mode;

const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    pub(crate) fn new(mode: Mode, buyers: u32) -> Self {
        let bar = ProgressBar::with_draw_target(Some(buyers.into()), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len} buyers") {
            bar.set_style(style);
        }
        bar.set_message(mode.to_string());
        Self {
            bar,
            started: Instant::now(),
        }
    }

    /// Shows that `done` buyers have finished. Draws nothing in the first second, or if stderr is
    /// not a terminal.
    pub(crate) fn set(&self, done: u32) {
        if self.bar.is_hidden() && self.started.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done.into());
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
