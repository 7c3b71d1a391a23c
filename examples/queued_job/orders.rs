//! Stands in for the table of orders. The key of the table is the order's id.

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, RedisResult};

const TABLE: &str = "orders";

#[derive(Clone)]
pub(crate) struct Orders {
    redis: MultiplexedConnection,
}

impl Orders {
    pub(crate) async fn open(redis: &redis::Client) -> RedisResult<Self> {
        let redis = redis.get_multiplexed_async_connection().await?;
        Ok(Self { redis })
    }

    pub(crate) async fn is_made(&self, id: &str) -> RedisResult<bool> {
        self.redis.clone().hexists(TABLE, id).await
    }

    pub(crate) async fn make(&self, id: &str) -> RedisResult<()> {
        let made: bool = self.redis.clone().hset_nx(TABLE, id, "made").await?;
        if made {
            Ok(())
        } else {
            Err((redis::ErrorKind::Client, "the order is made already").into())
        }
    }
}
