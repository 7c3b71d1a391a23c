//! A plain Redis client that accesses keys without the code under test.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use redis::{Cmd, Connection, FromRedisValue, RedisResult, cmd};

use crate::probe::Probe;

/// Value with which the probe takes a lock, as a holder other than the pool under test.
const FOREIGN: &str = "another-holder";
const TIMEOUT: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(60);
/// Script that deletes a key if it has the value in `ARGV[1]`: the usual release of a lock in
/// Redis.
const DELETE_IF: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// One blocking connection to a Redis server. Keys must be passed as they are on the server, unless
/// [`namespace`](Self::namespace) sets a prefix.
pub struct RedisProbe {
    connection: Mutex<Connection>,
    namespace: String,
}

impl std::fmt::Debug for RedisProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisProbe").finish_non_exhaustive()
    }
}

impl RedisProbe {
    /// Connects. Retries for up to a minute if the server does not answer in time, as on a busy
    /// machine.
    ///
    /// # Panics
    ///
    /// Panics if the connection is refused, or if no attempt succeeds within a minute.
    pub fn connect(url: &str) -> Self {
        let started = Instant::now();
        loop {
            match connect(url) {
                Ok(connection) => return Self::over(connection),
                Err(error) if error.is_timeout() && started.elapsed() < LONG => {}
                Err(error) => panic!("the server takes no connections: {error}"),
            }
        }
    }

    /// Connects once. Returns `None` if no server answers.
    pub fn try_connect(url: &str) -> Option<Self> {
        connect(url).ok().map(Self::over)
    }

    fn over(connection: Connection) -> Self {
        Self {
            connection: Mutex::new(connection),
            namespace: String::new(),
        }
    }

    /// Adds this prefix, for example `lock:`, to all keys, as the pool under test does.
    #[must_use]
    pub fn namespace(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.namespace);
        self
    }

    /// True if a server answers at `url`, and has finished loading.
    pub fn answers(url: &str) -> bool {
        connect(url).is_ok_and(|mut connection| {
            let reply: RedisResult<String> = cmd("PING").query(&mut connection);
            reply.is_ok()
        })
    }

    /// Returns the number of executions of a command since the server's start, or since the last
    /// `CONFIG RESETSTAT`.
    ///
    /// # Panics
    ///
    /// Panics if the server reports something other than a number.
    pub fn calls(&self, command: &str) -> u64 {
        let stats: String = self.run(cmd("INFO").arg("commandstats"));
        let start = format!("cmdstat_{command}:calls=");
        let calls = stats.lines().find_map(|line| line.strip_prefix(&start));
        let calls = calls.and_then(|calls| calls.split(',').next());
        calls.map_or(0, |calls| calls.parse().expect("a number"))
    }

    /// Runs a command.
    ///
    /// # Panics
    ///
    /// Panics if the server answers with an error.
    #[track_caller]
    pub fn run<T: FromRedisValue>(&self, command: &Cmd) -> T {
        self.try_run(command).expect("the server takes the command")
    }

    /// Runs a command that may fail.
    pub fn try_run<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        command.query(&mut *self.connection())
    }

    /// `GET`.
    pub fn get(&self, key: &str) -> Option<String> {
        self.run(cmd("GET").arg(self.name(key)))
    }

    /// The value that a holder wrote to `key`, or `None` if there is no holder. A value that ends
    /// with `:claim` only reserves the lock for the next process in the queue, and is not a
    /// holder's value.
    ///
    /// # Panics
    ///
    /// Panics if the value does not have leasehold's form.
    #[track_caller]
    pub fn value(&self, key: &str) -> Option<Value> {
        let text = self.get(key).filter(|text| !text.ends_with(":claim"));
        text.map(|text| Value::parse(&text))
    }

    /// `PTTL`; `None` for a missing key, or for a key that never expires.
    pub fn ttl(&self, key: &str) -> Option<Duration> {
        let left: i64 = self.run(cmd("PTTL").arg(self.name(key)));
        u64::try_from(left).ok().map(Duration::from_millis)
    }

    /// `TYPE`.
    pub fn kind(&self, key: &str) -> String {
        self.run(cmd("TYPE").arg(self.name(key)))
    }

    /// `DEL`.
    pub fn delete(&self, key: &str) -> bool {
        self.run(cmd("DEL").arg(self.name(key)))
    }

    /// `SET key value NX PX ttl`, the usual acquire of a lock in Redis. Returns `true` if the key
    /// was free.
    pub fn set_nx(&self, key: &str, value: &str, ttl: Duration) -> bool {
        let mut set = cmd("SET");
        set.arg(self.name(key)).arg(value).arg("NX");
        let reply: Option<String> = self.run(set.arg("PX").arg(millis(ttl)));
        reply.is_some()
    }

    /// `SET key value PX ttl`. No correct client sends this command, because it overwrites the lock
    /// of another holder.
    pub fn overwrite(&self, key: &str, value: &str, ttl: Duration) {
        let mut set = cmd("SET");
        set.arg(self.name(key)).arg(value);
        self.run::<()>(set.arg("PX").arg(millis(ttl)));
    }

    /// Deletes the key if it has this value.
    pub fn delete_if(&self, key: &str, value: &str) -> bool {
        let mut script = cmd("EVAL");
        script.arg(DELETE_IF).arg(1).arg(self.name(key)).arg(value);
        self.run(&script)
    }

    /// All keys that match a pattern. The pattern and the returned keys are as on the server: no
    /// namespace is added or removed.
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        self.run(cmd("KEYS").arg(pattern))
    }

    /// `DBSIZE`.
    pub fn size(&self) -> u64 {
        self.run(&cmd("DBSIZE"))
    }

    fn name(&self, key: &str) -> String {
        format!("{}{key}", self.namespace)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A poisoned mutex is accepted. The test that failed while it used the connection has
        // already reported the failure.
        self.connection
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The value of a lock key: `token:fence:reserve:process:owner`. Tests read only three parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// 32 hexadecimal digits, new for each acquisition.
    pub token: String,
    /// The fence.
    pub fence: u64,
    /// The holder.
    pub owner: String,
}

impl Value {
    /// Parses a value.
    ///
    /// # Panics
    ///
    /// Panics if the text does not have this form.
    #[track_caller]
    pub fn parse(text: &str) -> Self {
        let mut parts = text.splitn(5, ':');
        let mut part = || {
            parts
                .next()
                .unwrap_or_else(|| panic!("{text:?} has five parts"))
        };
        let (token, fence) = (part(), part());
        let (_reserve, _process, owner) = (part(), part(), part());
        let is_hex = token.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(token.len() == 32 && is_hex, "the token in {text:?}");
        Self {
            token: token.to_owned(),
            fence: fence
                .parse()
                .unwrap_or_else(|_| panic!("the fence in {text:?}")),
            owner: owner.to_owned(),
        }
    }
}

impl Probe for RedisProbe {
    fn exists(&self, key: &str) -> bool {
        self.run(cmd("EXISTS").arg(self.name(key)))
    }

    fn take(&self, key: &str, ttl: Duration) -> bool {
        self.set_nx(key, FOREIGN, ttl)
    }

    fn untouched(&self, key: &str) -> bool {
        self.get(key).as_deref() == Some(FOREIGN)
    }

    fn steal(&self, key: &str, ttl: Duration) {
        self.overwrite(key, FOREIGN, ttl);
    }

    fn give_back(&self, key: &str) {
        self.delete_if(key, FOREIGN);
    }
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

fn connect(url: &str) -> RedisResult<Connection> {
    let connection = redis::Client::open(url)?.get_connection_with_timeout(TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.set_write_timeout(Some(TIMEOUT))?;
    Ok(connection)
}
