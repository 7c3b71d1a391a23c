//! A probe of leasehold's tables.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::probe::Probe;

/// A probe that reads and writes leasehold's tables in one database, on a separate thread.
#[derive(Debug)]
pub struct PostgresProbe {
    ask: Mutex<Sender<(String, Sender<String>)>>,
    prefix: String,
    /// The token of each lock that the probe has taken, by key.
    taken: Mutex<HashMap<String, String>>,
}

impl PostgresProbe {
    pub(super) fn new(url: String, prefix: &str) -> Self {
        let (ask, asked) = channel();
        std::thread::spawn(move || serve(&url, &asked));
        Self {
            ask: Mutex::new(ask),
            prefix: prefix.to_owned(),
            taken: Mutex::default(),
        }
    }

    /// Runs a statement. Returns the first non-null value in the first column, or an empty text.
    ///
    /// # Panics
    ///
    /// Panics if the server refuses the statement.
    pub fn value(&self, sql: &str) -> String {
        let (reply, answer) = channel();
        let ask = self.ask.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = ask.send((sql.to_owned(), reply));
        sent.expect("the probe's thread lives");
        answer.recv().expect("the probe's thread answers")
    }

    /// Returns the key with its prefix, as in the tables, escaped for SQL.
    fn full(&self, key: &str) -> String {
        format!("{}{key}", self.prefix).replace('\'', "''")
    }

    fn live(&self, key: &str, condition: &str) -> bool {
        let full = self.full(key);
        let sql = format!(
            "SELECT count(*) FROM leasehold.locks WHERE key = '{full}' AND state <> 'free' AND expires_at > clock_timestamp() AND {condition}"
        );
        self.value(&sql) == "1"
    }
}

impl Probe for PostgresProbe {
    fn exists(&self, key: &str) -> bool {
        self.live(key, "true")
    }

    fn take(&self, key: &str, ttl: Duration) -> bool {
        let (full, token, ttl) = (self.full(key), token(), ttl.as_millis());
        let sql = format!(
            "SELECT taken FROM leasehold.take('{token}', '{{acquire}}', ARRAY['{full}'], '{{{token}}}', '{{{ttl}}}', '{{0}}', '{{false}}', '{{probe}}')"
        );
        let won = self.value(&sql) == "t";
        if won {
            let mut tokens = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            tokens.insert(key.to_owned(), token);
        }
        won
    }

    fn untouched(&self, key: &str) -> bool {
        let tokens = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let token = tokens.get(key).cloned();
        drop(tokens);
        token.is_some_and(|token| self.live(key, &format!("token = '{token}'")))
    }

    fn steal(&self, key: &str, ttl: Duration) {
        let (full, token, ttl) = (self.full(key), token(), ttl.as_millis());
        self.value(&format!(
            "UPDATE leasehold.locks SET state = 'held', token = '{token}', fence = fence + reserved + 1, expires_at = clock_timestamp() + {ttl} * interval '1 ms' WHERE key = '{full}'"
        ));
        let mut tokens = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.insert(key.to_owned(), token);
    }

    fn give_back(&self, key: &str) {
        let mut tokens = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let token = tokens.remove(key).expect("the probe holds the key");
        drop(tokens);
        let full = self.full(key);
        let sql = format!(
            "SELECT had FROM leasehold.give('{token}', '{{release}}', ARRAY['{full}'], '{{{token}}}', '{{NULL}}')"
        );
        assert_eq!(self.value(&sql), "t", "{key}: the probe held it");
    }
}

/// Makes a token that no other lock of this machine has.
fn token() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:016x}{number:016x}", std::process::id())
}

fn serve(url: &str, asked: &Receiver<(String, Sender<String>)>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        let connected = tokio_postgres::connect(url, NoTls).await;
        let (client, connection) = connected.expect("the server answers");
        tokio::spawn(connection);
        while let Ok((sql, reply)) = asked.recv() {
            let answer = client.simple_query(&sql).await;
            let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            let row = answer.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
            // `send` fails only if the asking thread no longer waits for the answer.
            let _ = reply.send(row.unwrap_or_default());
        }
    });
}
