//! Values of a lock and its queue on Redis, as another client may have left them. The store's
//! scripts read them. `scripts/fuzz` starts the server and sets its URL in `LEASEHOLD_FUZZ_REDIS`.
//!
//! The input consists of a byte that selects the kind of call, the queue's value, a line break and
//! the lock's value. An empty value means that its key is missing.
#![no_main]

use std::cell::RefCell;
use std::time::Duration;

use leasehold::LockPool;
use redis::{Client, Connection, FromRedisValue, Pipeline, pipe};
use tokio::runtime::{Builder, Runtime};

const LOCK: &str = "lock:k";
const QUEUE: &str = "lock:%leasehold:queue:k";

struct Place {
    runtime: Runtime,
    pool: LockPool,
    client: Client,
    server: Connection,
}

impl Place {
    fn open() -> Self {
        let url = std::env::var("LEASEHOLD_FUZZ_REDIS").expect("scripts/fuzz names a server");
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let connecting = LockPool::builder()
            .io_timeout(Duration::from_secs(30))
            .url(&url)
            .namespace("lock")
            .connect();
        let pool = runtime.block_on(connecting).expect("a server");
        let client = Client::open(url).expect("a URL");
        let server = client.get_connection().expect("a connection");
        Self {
            runtime,
            pool,
            client,
            server,
        }
    }

    /// Stores these values and nothing else.
    fn put(&mut self, queue: &[u8], lock: &[u8]) {
        let mut pipe = pipe();
        pipe.cmd("FLUSHALL").ignore();
        for (key, value) in [(QUEUE, queue), (LOCK, lock)] {
            if !value.is_empty() {
                pipe.cmd("SET")
                    .arg(key)
                    .arg(value)
                    .arg("PX")
                    .arg(60_000)
                    .ignore();
            }
        }
        self.ask::<()>(&pipe);
    }

    fn lock(&mut self) -> Option<Vec<u8>> {
        self.ask::<(Option<Vec<u8>>,)>(pipe().cmd("GET").arg(LOCK))
            .0
    }

    /// Sends the request again over another connection if a signal interrupts it, such as
    /// libFuzzer's alarm.
    fn ask<T: FromRedisValue>(&mut self, questions: &Pipeline) -> T {
        loop {
            match questions.query(&mut self.server) {
                Ok(answer) => return answer,
                Err(error) if error.to_string().contains("Interrupted") => {
                    self.server = self.client.get_connection().expect("a connection");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

thread_local!(static PLACE: RefCell<Place> = RefCell::new(Place::open()));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((call, bytes)) = bytes.split_first() else {
        return;
    };
    let end = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(bytes.len());
    let (queue, lock) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    PLACE.with_borrow_mut(|place| {
        place.put(queue, lock);
        let (runtime, pool) = (&place.runtime, &place.pool);
        let (is_exclusive, waits) = (call % 4 < 2, call % 2 == 1);
        let call = match call % 4 {
            0 => pool.lock("k"),
            1 => pool.lock("k").wait(Duration::from_millis(1)),
            2 => pool.lock("k").shared(),
            _ => pool.lock("k").permits(2).wait(Duration::from_millis(1)),
        };
        let guard = runtime.block_on(call.ttl(Duration::from_secs(10)).acquire());
        runtime
            .block_on(pool.inspect("k"))
            .expect("a look works on any value");
        match guard {
            Ok(guard) => {
                assert!(lock.is_empty() || !is_exclusive, "a value was overwritten");
                runtime
                    .block_on(guard.release())
                    .expect("a release works with any queue");
                let left = place.lock().unwrap_or_default();
                let is_handed = left.ends_with(b":claim");
                assert!(
                    left.is_empty() || is_handed || !is_exclusive,
                    "a lock stays behind"
                );
            }
            // A busy machine may need longer than such a short wait for an answer.
            Err(error) if waits && error.to_string().contains("no answer within") => {}
            Err(error) => assert!(error.is_contention(), "{error}"),
        }
    });
});
