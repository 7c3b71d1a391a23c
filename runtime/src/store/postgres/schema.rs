//! The tables and functions in the database.

use futures_util::future::join3;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::failure::{self, NO_TABLES};
use super::functions;
use crate::postgres::SCHEMA;
use crate::store::Failure;

/// Minimum version of the schema that this crate needs.
const VERSION: i32 = 1;

/// Errors of the migration if another process has created the schema or the tables in the meantime.
/// The server returns them only after that process's commit, so the tables then exist.
const MADE: [SqlState; 3] = [
    SqlState::DUPLICATE_SCHEMA,
    SqlState::DUPLICATE_TABLE,
    SqlState::UNIQUE_VIOLATION,
];

/// Creates the tables, unless they exist. If several processes do this at the same time, one
/// succeeds. The others wait for its commit, because a schema's name is unique.
pub(super) async fn migrate(client: &Client) -> Result<(), Failure> {
    check_encoding(client).await?;
    make(client).await.map_err(|error| failure::of(&error))
}

async fn make(client: &Client) -> Result<(), Error> {
    if is_there(client).await? {
        return Ok(());
    }
    client.batch_execute(&functions::begin()).await?;
    match client.batch_execute(SCHEMA).await {
        Ok(()) => client.batch_execute("COMMIT").await,
        Err(error) => {
            client.batch_execute("ROLLBACK").await?;
            let made = error.code().is_some_and(|code| MADE.contains(code));
            if made && is_there(client).await? {
                return Ok(());
            }
            Err(error)
        }
    }
}

/// True if the tables exist, as far as this role can see.
async fn is_there(client: &Client) -> Result<bool, Error> {
    let look = "SELECT pg_catalog.to_regclass('leasehold.meta') IS NOT NULL AS there";
    client.query_typed_one(look, &[]).await?.try_get("there")
}

/// Refuses a database without the tables, or with older ones.
pub(super) async fn check(client: &Client) -> Result<(), Failure> {
    let (encoded, there, version) = join3(
        check_encoding(client),
        is_there(client),
        client.query_typed_one("SELECT version FROM leasehold.meta", &[]),
    )
    .await;
    encoded?;
    if !there.map_err(|error| failure::of(&error))? {
        return Err(failure::unfit(NO_TABLES.to_owned()));
    }
    let version = version.and_then(|row| row.try_get("version"));
    let version: i32 = version.map_err(|error| failure::of(&error))?;
    if version < VERSION {
        return Err(failure::unfit(format!(
            "leasehold's tables in the database have version {version}, but this program needs \
             {VERSION}; run the migration of this release"
        )));
    }
    Ok(())
}

/// Refuses a database in which some keys cannot be written.
async fn check_encoding(client: &Client) -> Result<(), Failure> {
    let look = "SELECT pg_catalog.current_setting('server_encoding') AS name";
    let row = client.query_typed_one(look, &[]).await;
    let name = row.and_then(|row| row.try_get("name"));
    let name: String = name.map_err(|error| failure::of(&error))?;
    if name == "UTF8" {
        return Ok(());
    }
    Err(failure::unfit(format!(
        "the database has the encoding {name}, in which some keys cannot be written; keep locks in a database with the encoding UTF8"
    )))
}
