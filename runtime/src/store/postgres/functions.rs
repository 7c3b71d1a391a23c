//! Calls the SQL functions of leasehold's schema: with prepared statements or, behind a pooler, in
//! transactions that begin with their own settings.

use std::time::Duration;

use futures_util::future::{join3, try_join_all};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

use crate::base::seeded::seeded;

/// An SQL function of leasehold's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Take,
    TakeAll,
    Give,
    Sweep,
    Recall,
    Record,
    Forget,
    Adopt,
}

/// Statement after which a transaction runs no function or operator of another role.
const OWN_PATH: &str = "SET LOCAL search_path = pg_catalog, pg_temp";

/// Returns the statements that begin a transaction, so that it runs no function or operator of
/// another role.
pub(super) fn begin() -> String {
    let path = if seeded!(SearchPathTrusted) {
        ""
    } else {
        OWN_PATH
    };
    format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {path}")
}

/// Parameters of a statement, with their types.
pub(super) type Typed<'a> = [(&'a (dyn ToSql + Sync), Type)];

/// All functions, in the order of [`Function`].
const ALL: [Function; 8] = [
    Function::Take,
    Function::TakeAll,
    Function::Give,
    Function::Sweep,
    Function::Recall,
    Function::Record,
    Function::Forget,
    Function::Adopt,
];

/// Maximum number of idle rows that one call of `sweep` removes. Requests that follow on the
/// connection wait for its end, so the call must be short.
const MOST_SWEPT: i32 = 1_000;

/// The way in which a connection calls the SQL functions.
#[derive(Debug, Clone)]
pub(super) enum Functions {
    /// The prepared statements of a session that only the pool uses.
    Prepared(Vec<Statement>),
    /// The statements that begin each transaction. Behind a pooler, they contain all settings,
    /// because each transaction may run in another session.
    Pooled(String),
}

impl Function {
    fn sql(self) -> &'static str {
        match self {
            Self::Take => "SELECT * FROM leasehold.take($1, $2, $3, $4, $5, $6, $7, $8)",
            Self::TakeAll => "SELECT * FROM leasehold.take_all($1, $2, $3, $4, $5)",
            Self::Give => "SELECT * FROM leasehold.give($1, $2, $3, $4, $5)",
            Self::Sweep => "SELECT leasehold.sweep('1 minute', $1) AS removed",
            Self::Recall => "SELECT * FROM leasehold.recall($1, $2, $3, $4, $5, $6, $7)",
            Self::Record => "SELECT * FROM leasehold.record($1, $2, $3, $4, $5, $6)",
            Self::Forget => "SELECT * FROM leasehold.forget($1)",
            Self::Adopt => "SELECT * FROM leasehold.adopt($1, $2, $3, $4, $5, $6)",
        }
    }

    fn types(self) -> Vec<Type> {
        match self {
            Self::Take => vec![
                Type::UUID,
                Type::TEXT_ARRAY,
                Type::TEXT_ARRAY,
                Type::UUID_ARRAY,
                Type::INT4_ARRAY,
                Type::INT4_ARRAY,
                Type::BOOL_ARRAY,
                Type::TEXT_ARRAY,
            ],
            Self::TakeAll => vec![
                Type::UUID,
                Type::TEXT_ARRAY,
                Type::UUID_ARRAY,
                Type::INT4,
                Type::TEXT,
            ],
            Self::Give => vec![
                Type::UUID,
                Type::TEXT_ARRAY,
                Type::TEXT_ARRAY,
                Type::UUID_ARRAY,
                Type::INT4_ARRAY,
            ],
            Self::Sweep => vec![Type::INT4],
            Self::Recall => vec![
                Type::UUID,
                Type::TEXT,
                Type::UUID,
                Type::INT4,
                Type::BOOL,
                Type::TEXT,
                Type::TEXT,
            ],
            Self::Record => vec![
                Type::TEXT,
                Type::UUID,
                Type::INT4,
                Type::TEXT,
                Type::INT8,
                Type::TEXT,
            ],
            Self::Forget => vec![Type::TEXT],
            Self::Adopt => vec![
                Type::UUID,
                Type::TEXT,
                Type::UUID,
                Type::UUID,
                Type::INT4,
                Type::TEXT,
            ],
        }
    }
}

impl Functions {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let preparing = ALL.map(|function| client.prepare(function.sql()));
        try_join_all(preparing).await.map(Self::Prepared)
    }

    /// Returns the functions for use behind a pooler that changes sessions between transactions. A
    /// call waits at most `wait` for a row that another transaction has locked.
    pub(super) fn pooled(wait: Duration) -> Self {
        let wait = wait.as_millis().max(1);
        Self::Pooled(format!(
            "{}; SET LOCAL lock_timeout = {wait}; \
             SET LOCAL statement_timeout = 0; SET LOCAL jit = off; \
             SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off; \
             SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off",
            begin()
        ))
    }

    /// Returns the same functions, but they skip rows that other transactions have locked.
    pub(super) fn skipping(&self) -> Self {
        let begin = match self {
            Self::Prepared(_) => "BEGIN",
            Self::Pooled(begin) => begin,
        };
        Self::Pooled(format!(
            "{begin}; SET LOCAL lock_timeout = 1; SET LOCAL leasehold.skips = on"
        ))
    }

    /// Calls a function in one round trip. The rows arrive once its transaction is committed.
    pub(super) async fn call(
        &self,
        client: &Client,
        function: Function,
        arguments: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        match self {
            Self::Prepared(statements) => {
                client
                    .query(&statements[function as usize], arguments)
                    .await
            }
            Self::Pooled(_) => {
                let arguments = arguments.iter().copied();
                let arguments: Vec<_> = arguments.zip(function.types()).collect();
                self.query(client, function.sql(), &arguments).await
            }
        }
    }

    /// Runs any statement with the settings that the SQL functions need. Behind a pooler, the
    /// statement runs in a transaction that begins with these settings.
    pub(super) async fn query(
        &self,
        client: &Client,
        statement: &str,
        parameters: &Typed<'_>,
    ) -> Result<Vec<Row>, Error> {
        let Self::Pooled(begin) = self else {
            return client.query_typed(statement, parameters).await;
        };
        // All three are sent at the first poll, in this order.
        let (started, rows, committed) = join3(
            client.batch_execute(begin),
            client.query_typed(statement, parameters),
            client.batch_execute("COMMIT"),
        )
        .await;
        // If only the beginning of the transaction failed, the statement was carried out alone.
        let rows = rows.map_err(|error| started.err().unwrap_or(error))?;
        committed?;
        Ok(rows)
    }

    /// Removes idle rows (unused for a minute). Returns true if there may be more of them. The
    /// answer also shows that the connection works.
    pub(super) async fn sweep(&self, client: &Client) -> Result<bool, Error> {
        let rows = self.call(client, Function::Sweep, &[&MOST_SWEPT]).await?;
        let removed: i32 = rows.first().map_or(Ok(0), |row| row.try_get("removed"))?;
        Ok(removed == MOST_SWEPT)
    }
}
