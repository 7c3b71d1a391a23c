//! A queue in a Redis stream, with a group of workers. An unfinished job is delivered again.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::streams::{StreamAutoClaimOptions, StreamAutoClaimReply, StreamReadOptions};
use redis::streams::{StreamId, StreamReadReply};
use redis::{AsyncCommands as _, AsyncConnectionConfig, ErrorKind, RedisError, RedisResult};

use crate::{Job, TTL};

const STREAM: &str = "jobs";
const GROUP: &str = "workers";
const FIELD: &str = "job";

/// If a worker has not removed its job from the queue after this time, the queue delivers the job
/// to another worker. The first worker may still be alive. Only the lock prevents both from doing
/// the job at the same time.
const IDLE: Duration = TTL;

/// Time for which a worker waits for a new job before it looks for an abandoned job again.
const PATIENCE: Duration = Duration::from_secs(1);

/// A connection to the queue. Each waiting worker needs its own connection.
#[derive(Clone)]
pub(crate) struct Queue {
    redis: MultiplexedConnection,
}

impl Queue {
    pub(crate) async fn open(redis: &redis::Client) -> RedisResult<Self> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE * 5));
        let connecting = redis.get_multiplexed_async_connection_with_config(&config);
        let mut redis = connecting.await?;
        let made: RedisResult<()> = redis.xgroup_create_mkstream(STREAM, GROUP, "0").await;
        match made {
            Err(error) if error.code() != Some("BUSYGROUP") => Err(error),
            _ => Ok(Self { redis }),
        }
    }

    pub(crate) async fn push(&self, job: &Job) -> RedisResult<()> {
        let json = serde_json::to_string(job).map_err(|error| unreadable(&error))?;
        let mut redis = self.redis.clone();
        redis.xadd(STREAM, "*", &[(FIELD, json)]).await
    }

    /// Returns the next job for the worker `worker`, with the job's id. Prefers an abandoned job to
    /// a new one. Waits for a while, and returns `None` if no job has arrived.
    pub(crate) async fn next(&mut self, worker: &str) -> RedisResult<Option<(String, Job)>> {
        let one = StreamAutoClaimOptions::default().count(1);
        let claim = self
            .redis
            .xautoclaim_options(STREAM, GROUP, worker, millis(IDLE), "0-0", one);
        let abandoned: StreamAutoClaimReply = claim.await?;
        if let Some(entry) = abandoned.claimed.into_iter().next() {
            return read(entry).map(Some);
        }
        let options = StreamReadOptions::default().group(GROUP, worker).count(1);
        let options = options.block(millis(PATIENCE));
        let read_group = self.redis.xread_options(&[STREAM], &[">"], &options);
        let new: Option<StreamReadReply> = read_group.await?;
        let streams = new.map(|new| new.keys).unwrap_or_default();
        let mut entries = streams.into_iter().flat_map(|stream| stream.ids);
        entries.next().map(read).transpose()
    }

    /// Removes a finished job, so that it is not delivered again.
    pub(crate) async fn done(&mut self, id: &str) -> RedisResult<()> {
        redis::pipe()
            .atomic()
            .xack(STREAM, GROUP, &[id])
            .ignore()
            .xdel(STREAM, &[id])
            .ignore()
            .query_async(&mut self.redis)
            .await
    }
}

fn read(entry: StreamId) -> RedisResult<(String, Job)> {
    let json: String = entry.get(FIELD).unwrap_or_default();
    let job = serde_json::from_str(&json).map_err(|error| unreadable(&error))?;
    Ok((entry.id, job))
}

fn unreadable(error: &serde_json::Error) -> RedisError {
    (
        ErrorKind::Client,
        "a job that is not JSON",
        error.to_string(),
    )
        .into()
}

fn millis(time: Duration) -> usize {
    usize::try_from(time.as_millis()).unwrap_or(usize::MAX)
}
