//! Requirement 18: every error of a server becomes a typed error. A call is not retried after an
//! error that an operator must fix.

use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool};

use super::ground::{Ground, Requirement, connect, local_runtime};
use super::sheet::Sheet;
use super::store::Store;
use crate::cluster::{Cluster, Setup};
use crate::proxy::{After, Mode, Proxy};
use crate::quorum::{self, Quorum};
use crate::server::{Server, ServerOptions};
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 18,
    what: "every server error has a class",
    stores: &[Store::Redis, Store::Redlock, Store::Cluster],
    run,
};

const TTL: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_millis(100);
const SOON: Duration = Duration::from_millis(800);

/// Error answers of a server, each with the error code that callers get, and true if the call
/// should be retried.
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
    ("ERR something that no server has sent yet", "ERR", false),
];

fn run(ground: &Ground, sheet: &Sheet) {
    let front = Front::start(ground.store);
    let proxies = &front.proxies;
    let runtime = local_runtime();
    for (answer, code, again) in ANSWERS {
        let (code, again) = front.expected(code, again);
        let pool = runtime.block_on(connect(&front.url));
        for proxy in proxies {
            proxy.lose_replies("EVALSHA", u64::MAX, After::Error(answer));
        }
        let before = commands(proxies);
        let (got, took) = runtime.block_on(refusal(&pool, code, Duration::from_millis(1_500)));
        let sent = commands(proxies) - before;
        for proxy in proxies {
            proxy.lose_replies("EVALSHA", 0, After::Error(answer));
        }
        // The pool is shut down before the next answer is tested. Otherwise the pool could still
        // send removals of keys during that test.
        runtime.block_on(pool.shutdown(TTL));
        drop(pool);
        wait_until_quiet(proxies);
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
    let pool = runtime.block_on(connect(&front.url));
    for proxy in proxies {
        proxy.set(Mode::Garble);
    }
    let (got, _) = runtime.block_on(refusal(&pool, "protocol", Duration::ZERO));
    sheet.check(got == "protocol", || format!("garbage became {got}"));
    max_clients(sheet);
    sheet.faults("error answer", 18);
    sheet.reached("classes", 18, 18);
}

/// Proxies that all answer with the same error.
struct Front {
    url: String,
    proxies: Vec<Proxy>,
    servers: Servers,
}

/// The servers behind the proxies.
enum Servers {
    One(Server),
    Several(Quorum),
    /// The nodes of a cluster, which redirect their clients to the proxies.
    Nodes(Cluster),
}

impl Front {
    fn start(store: Store) -> Self {
        let servers = match store {
            Store::Redlock => Servers::Several(Quorum::older_than(3, TTL)),
            Store::Cluster => Servers::Nodes(Setup::new().start()),
            _ => Servers::One(Server::start()),
        };
        let proxies = match &servers {
            Servers::One(server) => vec![Proxy::start(server.address())],
            Servers::Several(nodes) => nodes.proxies(),
            Servers::Nodes(cluster) => cluster.proxies(),
        };
        let addresses = proxies.iter().map(Proxy::address);
        let url = match &servers {
            Servers::One(_) => proxies[0].url(),
            Servers::Several(_) => quorum::url(addresses, "max_ttl=100ms"),
            Servers::Nodes(_) => {
                let hosts: Vec<_> = addresses.map(|address| address.to_string()).collect();
                format!("redis-cluster://{}", hosts.join(","))
            }
        };
        Self {
            url,
            proxies,
            servers,
        }
    }

    /// Adapts an entry of `ANSWERS` to the servers in use. Returns the code that callers get, and
    /// true if the call should be retried. A Cluster client follows a redirect (`MOVED`, `ASK`),
    /// here to a port without a listener, so callers get an I/O error. If a server reports a
    /// missing script, the client sends the script's source. Callers then get the lock, and the
    /// code is `nothing`.
    fn expected(&self, code: &'static str, again: bool) -> (&'static str, bool) {
        match (&self.servers, code) {
            (Servers::Nodes(_), "MOVED" | "ASK") => ("io", true),
            (_, "NOSCRIPT") => ("nothing", true),
            _ => (code, again),
        }
    }
}

fn commands(proxies: &[Proxy]) -> u64 {
    proxies.iter().map(|proxy| proxy.counts().commands).sum()
}

/// Waits until no command has arrived for the time `QUIET`, because a dropped pool may still send
/// its remaining commands.
fn wait_until_quiet(proxies: &[Proxy]) {
    let quiet = |proxy: &Proxy| {
        let last = Duration::from_nanos(proxy.last_command());
        QUIET <= Duration::from_nanos(leasehold::__test::now()).saturating_sub(last)
    };
    wait::until("the pool before is gone", TTL, || proxies.iter().all(quiet));
}

async fn refusal(pool: &LockPool, key: &str, wait: Duration) -> (String, Duration) {
    let started = Instant::now();
    let ended = pool.lock(key).ttl(TTL).wait(wait).acquire().await;
    let code = match ended {
        Ok(_) => "nothing".to_owned(),
        // A quorum reports one error, whose text contains the errors of the nodes. The expected
        // code is also the `key` of the lock.
        Err(LockError::Unavailable { source })
            if source.code() == "quorum" && source.to_string().contains(key) =>
        {
            key.to_owned()
        }
        // The time limit of the call ended before the nodes had answered its last attempt.
        Err(LockError::Unavailable { source })
            if source.code() == "quorum" && source.to_string().contains("no answer in time") =>
        {
            "timeout".to_owned()
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
    // If the server closes the connection before the client has read the answer, the code is `io`.
    sheet.check(["maxclients", "io"].contains(&code), || {
        format!("too many clients became {refused:?}")
    });
}
