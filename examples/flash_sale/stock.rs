//! The number of items. Reading and writing are two separate steps, as with most databases and
//! every remote service. Nothing here is atomic, on purpose.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::AsyncCommands as _;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use crate::purchase::SaleError;

/// Time limit of an answer from Redis. The default of the crate redis, half a second, is too short
/// on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Expiry of the stock in Redis, so that a crashed run does not leave it behind for ever.
const EXPIRY_SECONDS: u64 = 600;

#[derive(Debug, Clone)]
pub(crate) struct Stock {
    name: String,
    place: Place,
}

#[derive(Clone)]
enum Place {
    Memory(Arc<Mutex<u32>>),
    Redis(MultiplexedConnection),
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Memory(_) => "Memory",
            Self::Redis(_) => "Redis",
        })
    }
}

impl Stock {
    /// Opens the stock. With `memory://`, the number is in this process. Otherwise it is in the
    /// Redis that has the locks, so that all processes share it.
    pub(crate) async fn open(store: &str, name: &str) -> Result<Self, SaleError> {
        let place = if store.starts_with("memory:") {
            Place::Memory(Arc::default())
        } else {
            Place::Redis(connect(store).await.map_err(SaleError::NoRedis)?)
        };
        Ok(Self {
            name: name.to_owned(),
            place,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) async fn read(&self) -> Result<u32, SaleError> {
        match &self.place {
            Place::Memory(left) => Ok(*left.lock().unwrap_or_else(PoisonError::into_inner)),
            Place::Redis(connection) => Ok(connection.clone().get(self.key()).await?),
        }
    }

    pub(crate) async fn write(&self, left: u32) -> Result<(), SaleError> {
        match &self.place {
            Place::Memory(cell) => *cell.lock().unwrap_or_else(PoisonError::into_inner) = left,
            Place::Redis(connection) => {
                let mut connection = connection.clone();
                let () = connection.set_ex(self.key(), left, EXPIRY_SECONDS).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn remove(&self) -> Result<(), SaleError> {
        if let Place::Redis(connection) = &self.place {
            let () = connection.clone().del(self.key()).await?;
        }
        Ok(())
    }

    fn key(&self) -> String {
        format!("flash_sale:{}:stock", self.name)
    }
}

async fn connect(store: &str) -> redis::RedisResult<MultiplexedConnection> {
    let client = redis::Client::open(store)?;
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}
