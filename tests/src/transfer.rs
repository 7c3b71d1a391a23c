//! Money that moves between accounts. The sum of all accounts stays the same only if no two moves
//! use an account at the same time.
//!
//! A move reads two balances, and later writes both with one command. So after a process is killed
//! during a move, the balances show either the complete move or no move.

use redis::cmd;

use crate::redis_probe::RedisProbe;

/// Number of accounts.
pub const ACCOUNTS: u64 = 20;
/// The balance of each account at the start.
pub const START: i64 = 1_000;

const MOVES: &str = "bank:moves";

/// The accounts, in the same Redis as the locks.
#[derive(Debug)]
pub struct Bank {
    store: RedisProbe,
}

/// Two accounts, and their balances before a move.
#[derive(Debug)]
pub struct Balances {
    from: (u64, i64),
    to: (u64, i64),
}

impl Bank {
    /// Connects to the bank in the Redis at `url`.
    pub fn open(url: &str) -> Self {
        Self {
            store: RedisProbe::connect(url),
        }
    }

    /// Sets the balance of every account to `START`.
    pub fn found(&self) {
        for number in 0..ACCOUNTS {
            self.store
                .run::<()>(cmd("SET").arg(account(number)).arg(START));
        }
    }

    /// Reads the balances of two accounts.
    pub fn balances(&self, from: u64, to: u64) -> Balances {
        let read = |number| self.store.run(cmd("GET").arg(account(number)));
        Balances {
            from: (from, read(from)),
            to: (to, read(to)),
        }
    }

    /// Moves `amount` between two accounts: writes both new balances, and counts the move. If
    /// `before` names one account twice, the move changes no balance, but is counted.
    pub fn move_from(&self, before: &Balances, amount: i64) {
        let Balances { from, to } = before;
        if from.0 != to.0 {
            let mut write = cmd("MSET");
            write.arg(account(from.0)).arg(from.1 - amount);
            write.arg(account(to.0)).arg(to.1 + amount);
            self.store.run::<()>(&write);
        }
        self.store.run::<()>(cmd("INCR").arg(MOVES));
    }

    /// Number of moves so far.
    pub fn moves(&self) -> u64 {
        let moves: Option<u64> = self.store.run(cmd("GET").arg(MOVES));
        moves.unwrap_or_default()
    }

    /// All the money now, minus all the money at the start.
    pub fn surplus(&self) -> i64 {
        let all = (0..ACCOUNTS).map(|number| self.balances(number, number).from.1 - START);
        all.sum()
    }
}

fn account(number: u64) -> String {
    format!("bank:account:{number}")
}
