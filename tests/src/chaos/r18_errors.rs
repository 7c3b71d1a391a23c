//! Requirement 18: every error of a server is a typed error of ours; what an operator must mend is not retried.

use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool};

use super::ground::{Ground, Requirement, Store, connect, local_runtime};
use super::sheet::Sheet;
use crate::proxy::{After, Mode, Proxy};
use crate::quorum::{self, Quorum};
use crate::server::{Server, ServerOptions};

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 18,
    what: "every server error has a class",
    stores: &[Store::Redis, Store::Redlock],
    run,
};

const TTL: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_millis(800);

/// What the server says, the code that callers see, and whether another try makes sense.
const ANSWERS: [(&str, &str, bool); 16] = [
    (
        "NOSCRIPT No matching script. Please use EVAL.",
        "NOSCRIPT",
        true,
    ),
    (
        "LOADING Redis is loading the dataset in memory",
        "LOADING",
        true,
    ),
    (
        "READONLY You can't write against a read only replica.",
        "READONLY",
        true,
    ),
    ("MOVED 3999 127.0.0.1:6381", "MOVED", false),
    ("ASK 3999 127.0.0.1:6381", "ASK", false),
    (
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "TRYAGAIN",
        true,
    ),
    ("CLUSTERDOWN The cluster is down", "CLUSTERDOWN", true),
    ("MASTERDOWN Link with MASTER is down", "MASTERDOWN", true),
    ("BUSY Redis is busy running a script.", "BUSY", true),
    (
        "OOM command not allowed when used memory > 'maxmemory'.",
        "OOM",
        false,
    ),
    ("NOAUTH Authentication required.", "NOAUTH", false),
    (
        "WRONGPASS invalid username-password pair",
        "WRONGPASS",
        false,
    ),
    (
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "NOPERM",
        false,
    ),
    (
        "MISCONF Redis is configured to save RDB snapshots",
        "MISCONF",
        false,
    ),
    (
        "NOREPLICAS Not enough good replicas to write.",
        "NOREPLICAS",
        false,
    ),
    ("ERR something that no server has said yet", "ERR", false),
];

fn run(ground: &Ground, sheet: &Sheet) {
    let front = Front::start(ground.store);
    let runtime = local_runtime();
    for (answer, code, again) in ANSWERS {
        let proxies = front.proxies();
        let pool = runtime.block_on(connect(&front.url(&proxies)));
        for proxy in &proxies {
            proxy.lose_replies("EVALSHA", u64::MAX, After::Error(answer));
        }
        let before = commands(&proxies);
        let (got, took) = runtime.block_on(refusal(&pool, code, Duration::from_millis(1_500)));
        let sent = commands(&proxies) - before;
        let timed_out = again && got == "timeout";
        sheet.check(got == code || timed_out, || {
            format!("{answer:?} became {got}")
        });
        sheet.check(again || took < SOON, || {
            format!("{code} was waited for: {took:?}")
        });
        sheet.check(
            again || sent <= 3 * u64::try_from(proxies.len()).unwrap_or(0),
            || format!("{code} was tried again: {sent} commands"),
        );
    }
    let proxies = front.proxies();
    let pool = runtime.block_on(connect(&front.url(&proxies)));
    for proxy in &proxies {
        proxy.set(Mode::Garble);
    }
    let (got, _) = runtime.block_on(refusal(&pool, "protocol", Duration::ZERO));
    sheet.check(got == "protocol", || format!("garbage became {got}"));
    max_clients(sheet);
    sheet.faults("error answer", 18);
    sheet.reached("classes", 18, 18);
}

/// The servers behind the networks that answer with errors.
enum Front {
    One(Server),
    /// All nodes answer with the same error.
    Several(Quorum),
}

impl Front {
    fn start(store: Store) -> Self {
        match store {
            Store::Redlock => Self::Several(Quorum::older_than(3, TTL)),
            _ => Self::One(Server::start()),
        }
    }

    fn proxies(&self) -> Vec<Proxy> {
        match self {
            Self::One(server) => vec![Proxy::start(server.address())],
            Self::Several(nodes) => nodes.proxies(),
        }
    }

    fn url(&self, proxies: &[Proxy]) -> String {
        match self {
            Self::One(_) => proxies[0].url(),
            Self::Several(_) => quorum::url(proxies.iter().map(Proxy::address), "max_ttl=100ms"),
        }
    }
}

fn commands(proxies: &[Proxy]) -> u64 {
    proxies.iter().map(|proxy| proxy.counts().commands).sum()
}

async fn refusal(pool: &LockPool, key: &str, wait: Duration) -> (String, Duration) {
    let started = Instant::now();
    let ended = pool.lock(key).ttl(TTL).wait(wait).acquire().await;
    let code = match ended {
        Ok(_) => "nothing".to_owned(),
        // The text of a quorum names the nodes' errors.
        Err(LockError::Unavailable { source })
            if source.code() == "quorum" && source.to_string().contains(key) =>
        {
            key.to_owned()
        }
        Err(LockError::Unavailable { source }) if source.code() != "quorum" => {
            source.code().to_owned()
        }
        Err(other) => format!("{other:?}"),
    };
    (code, started.elapsed())
}

fn max_clients(sheet: &Sheet) {
    let server = ServerOptions::new().option("maxclients", &["1"]).start();
    let _one = server.probe();
    let refused = local_runtime().block_on(LockPool::connect(&server.url()));
    let code = match &refused {
        Err(LockError::Unavailable { source }) => source.code(),
        _ => "nothing",
    };
    // The server may close the connection before its answer is read.
    sheet.check(["maxclients", "io"].contains(&code), || {
        format!("too many clients became {refused:?}")
    });
}
