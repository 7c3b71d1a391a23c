//! Whether a server is so quick that it is worth while to look for its answers instead of sleeping.

use std::time::Duration;

/// How much one slow answer weighs. A quick one counts in full.
const SLOWLY: u32 = 16;

/// Where answers have been slow, so many occasions go by between two on which it is tried all the same: without it a quick server looks
/// slow, too, as a thread has to wake up first.
pub(super) const SELDOM: u32 = 16;

/// How quick a server is, judged by how long one had to wait lately.
#[derive(Debug)]
pub(super) struct Quickness {
    /// The longest wait that counts as quick.
    longest: Duration,
    /// What one has had to wait lately, rather too short than too long.
    usual: Duration,
    /// Occasions since it was tried last.
    missed: u32,
}

impl Quickness {
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            usual: longest,
            missed: 0,
        }
    }

    /// What one has had to wait lately.
    pub(super) fn usual(&self) -> Duration {
        self.usual
    }

    /// Something has come after so long.
    pub(super) fn learn(&mut self, took: Duration) {
        if took < self.usual {
            self.usual = took;
        } else {
            // Bounded, so that one pause is not remembered for long.
            let more = took.min(4 * self.longest).saturating_sub(self.usual);
            self.usual += more / SLOWLY;
        }
    }

    /// Nothing has come, for longer than counts.
    pub(super) fn learn_too_long(&mut self) {
        self.learn(4 * self.longest);
    }

    /// There is an occasion to try.
    pub(super) fn occasion(&mut self) {
        self.missed += 1;
    }

    /// It has been tried.
    pub(super) fn tried(&mut self) {
        self.missed = 0;
    }

    /// Whether it is worth while now.
    pub(super) fn is_worthwhile(&self) -> bool {
        self.usual <= self.longest || SELDOM <= self.missed
    }
}
