//! Runs all buyers of one process at the same time.

use std::ops::AddAssign;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::args::{Args, Mode};
use crate::purchase::{self, Outcome, SaleError};
use crate::stock::Stock;

/// Number of buyers for each result of a visit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) sold: u32,
    pub(crate) sold_out: u32,
    /// Buyers that queued for a minute and left without an item.
    pub(crate) gave_up: u32,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.sold += other.sold;
        self.sold_out += other.sold_out;
        self.gave_up += other.gave_up;
    }
}

/// Runs all buyers of this process at the same time. Calls `done` after each buyer, with the number
/// of finished buyers.
pub(crate) async fn buy_all(
    args: &Args,
    mode: Mode,
    stock: &Stock,
    done: impl Fn(u32),
) -> Result<Tally, SaleError> {
    let mut visits = JoinSet::new();
    for buyer in args.first_buyer..args.first_buyer + args.buyers {
        let stock = stock.clone();
        let thinking = thinking_time(args.seed, buyer);
        visits.spawn(async move {
            match mode {
                Mode::WithoutLock => purchase::buy_without_lock(&stock, thinking).await,
                Mode::WithLock => purchase::buy_with_lock(&stock, thinking).await,
            }
        });
    }
    let mut tally = Tally::default();
    let mut finished = 0;
    while let Some(visit) = visits.join_next().await {
        let visit = visit.map_err(|error| SaleError::Process(error.to_string()))?;
        tally.count(visit)?;
        finished += 1;
        done(finished);
    }
    Ok(tally)
}

impl Tally {
    fn count(&mut self, visit: Result<Outcome, SaleError>) -> Result<(), SaleError> {
        match visit {
            Ok(Outcome::Bought) => self.sold += 1,
            Ok(Outcome::SoldOut) => self.sold_out += 1,
            Err(SaleError::Lock(error)) if error.is_contention() => self.gave_up += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Returns a time of 0.2 to 1.2 ms, which depends only on the seed and the buyer (`SplitMix64`).
fn thinking_time(seed: u64, buyer: u32) -> Duration {
    let mut z = seed.wrapping_add(u64::from(buyer).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    Duration::from_micros(200 + (z ^ (z >> 31)) % 1000)
}
