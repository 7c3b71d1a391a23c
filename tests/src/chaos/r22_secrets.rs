//! Requirement 22: no text that leasehold shows contains a password or a token.

use std::fmt::Debug;
use std::time::Duration;

use leasehold::{LockError, LockPool};

use super::canary;
use super::ground::{Ground, REDIS, Requirement, runtime};
use super::sheet::Sheet;
use crate::proxy::{After, Mode, Proxy};
use crate::redis_probe::RedisProbe;
use crate::server::{Server, ServerOptions};

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 22,
    what: "no secret in Debug, Display, logs, metrics",
    stores: REDIS,
    run,
};

const PASSWORD: &str = "canary-hunter2";
const TTL: Duration = Duration::from_millis(300);

fn run(ground: &Ground, sheet: &Sheet) {
    canary::listen();
    let rounds = ground.count(100, 5);
    let mut server = ServerOptions::new().password(PASSWORD).start();
    let mut texts = Vec::new();
    let mut words = vec![PASSWORD.to_owned()];
    let runtime = runtime(2);
    for number in 0..rounds {
        let proxy = Proxy::start(server.address());
        let url = proxy
            .url()
            .replace("redis://", &format!("redis://:{PASSWORD}@"));
        let probe = server.probe();
        runtime.block_on(async {
            round(&url, &proxy, &probe, number, &mut texts, &mut words).await;
        });
    }
    runtime.block_on(refused(&server, &mut texts));
    server.kill();
    runtime.block_on(refused(&server, &mut texts));
    let shown = texts
        .iter()
        .filter(|text| words.iter().any(|word| text.contains(word)));
    for text in shown {
        sheet.fail(format!("shown: {text}"));
    }
    let (recorded, hits) = canary::scan(&words);
    for text in hits {
        sheet.fail(format!("logged: {text}"));
    }
    sheet.check(recorded > 0, || {
        "nothing was logged, so nothing was looked at".to_owned()
    });
    sheet.reached(
        "texts and log lines scanned",
        u64::try_from(texts.len() + recorded).unwrap_or(0),
        1,
    );
    sheet.remark(format!("{} secrets", words.len()));
}

/// Uses one pool from its connection to its shutdown, with network faults, errors from the server
/// and refused calls. Collects every text that the pool shows.
async fn round(
    url: &str,
    proxy: &Proxy,
    probe: &RedisProbe,
    number: u64,
    texts: &mut Vec<String>,
    words: &mut Vec<String>,
) {
    let builder = LockPool::builder().url(url).io_timeout(TTL);
    texts.push(format!("{builder:?} {builder:#?}"));
    let pool = builder.connect().await.expect("the password is right");
    let key = format!("secret-{number}");
    let request = pool.lock(&*key).ttl(TTL).watchdog();
    texts.push(format!("{pool:?} {request:?}"));
    let guard = request.acquire().await.expect("it is free");
    let value = probe.get(&format!("lock:{key}")).expect("it is locked");
    words.push(value.chars().take(32).collect());
    texts.push(format!("{guard:?} {guard:#?} {:?}", guard.handle()));
    keep(
        texts,
        pool.lock(&*key).ttl(TTL).acquire().await.err().as_ref(),
    );
    match number % 4 {
        0 => proxy.set(Mode::BlackHole),
        1 => proxy.set(Mode::Garble),
        2 => proxy.lose_replies("EVALSHA", 100, After::Error("NOAUTH no")),
        _ => proxy.lose_replies("EVALSHA", 100, After::Error("OOM full")),
    }
    keep(
        texts,
        pool.lock("other").ttl(TTL).acquire().await.err().as_ref(),
    );
    guard.handle().lost().await;
    keep(texts, guard.check().err().as_ref());
    keep(texts, guard.release().await.err().as_ref());
    proxy.pass();
    texts.push(format!("{:?}", pool.shutdown(TTL).await));
}

fn keep(texts: &mut Vec<String>, error: Option<&LockError>) {
    if let Some(error) = error {
        texts.push(format!("{error} {error:?} {error:#?} {:?}", source(error)));
    }
}

fn source(error: &LockError) -> Option<impl Debug> {
    std::error::Error::source(error).map(|source| format!("{source} {source:?}"))
}

/// Connects with a wrong password, which must also stay secret.
async fn refused(server: &Server, texts: &mut Vec<String>) {
    for user in ["", "user"] {
        let url = format!("redis://{user}:{PASSWORD}x@127.0.0.1:{}/", server.port());
        keep(texts, LockPool::connect(&url).await.err().as_ref());
        keep(
            texts,
            LockPool::connect(&format!("{url}nonsense"))
                .await
                .err()
                .as_ref(),
        );
    }
}
