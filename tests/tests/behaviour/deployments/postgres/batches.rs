//! Tests that several requests in one call of an SQL function have the same results as the same
//! requests in separate calls.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use leasehold_tests::postgres::Postgres;
use leasehold_tests::random::Random;
use tokio_postgres::Client;

use super::LONG;

const ROUNDS: u32 = 80;
const KEYS: u64 = 8;
const REQUESTS: u64 = 12;

/// Kinds of requests (verbs) that the SQL functions `take` and `give` execute.
const TAKES: [&str; 4] = ["acquire", "join", "renew", "stay"];
const GIVES: [&str; 3] = ["release", "part", "leave"];

/// Names of processes: `ME` sends the requests, `WAITER` waits, and `HOLDER` holds locks.
const ME: &str = "00000000-0000-0000-0000-000000000001";
const WAITER: &str = "00000000-0000-0000-0000-000000000002";
const HOLDER: &str = "00000000-0000-0000-0000-000000000003";

/// Possible states of a key before the requests: the SQL values of its row (state, token, process,
/// queued, time until its end), and additional data.
const ROWS: [(&str, Also); 15] = [
    ("", Also::Nothing),
    ("'free', NULL, NULL, false, '-1 s'", Also::Nothing),
    ("'free', NULL, NULL, false, '-1 s'", Also::Pin),
    ("'free', NULL, NULL, true, '-1 s'", Also::Waiter),
    ("'held', OTHER, HOLDER, false, '50 s'", Also::Nothing),
    ("'held', OTHER, HOLDER, false, '-1 s'", Also::Nothing),
    ("'held', OWN, ME, false, '50 s'", Also::Nothing),
    ("'held', OWN, ME, true, '50 s'", Also::Waiter),
    ("'handed', NULL, ME, false, '50 s'", Also::Nothing),
    ("'handed', NULL, WAITER, false, '50 s'", Also::Nothing),
    ("'revoked', OWN, ME, false, '50 s'", Also::Nothing),
    ("'kept', NULL, NULL, false, '50 s'", Also::Nothing),
    ("'shared', NULL, ME, false, '50 s'", Also::Share),
    ("'shared', NULL, ME, false, '50 s'", Also::RevokedShare),
    ("'shared', NULL, ME, false, '-1 s'", Also::Share),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Also {
    Nothing,
    Pin,
    Waiter,
    Share,
    RevokedShare,
}

/// A request of the functions `take` and `give`.
#[derive(Debug)]
struct Asked {
    verb: &'static str,
    key: u64,
    token: String,
    /// Number of fences to reserve (`acquire`), or the limit of a shared lock (`join`).
    number: i32,
    queues: bool,
    /// Milliseconds for which the released lock stays locked.
    keep: Option<i32>,
}

/// Returns a token for a key. Kind 1 is the token `OWN` in `ROWS`, with which `ME` holds a lock.
fn token(kind: u64, key: u64) -> String {
    format!("{kind:08x}-0000-0000-0000-{key:012x}")
}

/// Returns a request with the token `OWN` and without options. The caller adds the verb.
fn plain(key: u64) -> Asked {
    Asked {
        verb: "",
        key,
        token: token(1, key),
        number: 0,
        queues: false,
        keep: None,
    }
}

fn requests(random: &mut Random, verbs: &[&'static str]) -> Vec<Asked> {
    (0..REQUESTS)
        .map(|number| {
            let which = usize::try_from(random.below(verbs.len() as u64)).expect("it is small");
            let key = random.below(KEYS);
            let own = random.below(3) == 0 || verbs[which] != "acquire" && random.below(3) > 0;
            Asked {
                verb: verbs[which],
                key,
                token: token(if own { 1 } else { 100 }, if own { key } else { number }),
                number: i32::try_from(random.below(3)).expect("it is small"),
                queues: random.below(2) == 0,
                keep: (random.below(4) == 0).then_some(40_000),
            }
        })
        .collect()
}

/// A separate set of keys, on which one story (a sequence of requests) runs.
struct Copy<'a> {
    client: &'a Client,
    prefix: String,
}

impl<'a> Copy<'a> {
    fn of(client: &'a Client, prefix: &str) -> Self {
        let prefix = prefix.to_owned();
        Self { client, prefix }
    }

    fn key(&self, key: u64) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Creates rows of these kinds, which are indices of `ROWS`. Returns the keys that the caller
    /// must pin: an open transaction must lock their rows.
    async fn make(&self, kinds: &[usize]) -> Vec<String> {
        let (mut sql, mut pinned) = (String::new(), Vec::new());
        for (number, kind) in (0..).zip(kinds) {
            let (row, also) = ROWS[*kind];
            let key = self.key(number);
            if !row.is_empty() {
                let _ = write!(
                    sql,
                    "INSERT INTO leasehold.locks (state, token, process, queued, expires_at, key, fence, reserved)
                     SELECT a::leasehold.state, b::uuid, c::uuid, d, clock_timestamp() + e::interval, '{key}', 5, 1
                     FROM (VALUES ({row})) AS v(a, b, c, d, e);"
                );
            }
            match also {
                Also::Nothing => {}
                Also::Pin => pinned.push(key),
                Also::Waiter => {
                    let _ = write!(
                        sql,
                        "INSERT INTO leasehold.waiters (key, process, seen_at, beacon)
                         VALUES ('{key}', WAITER, clock_timestamp() + interval '1 hour', false);"
                    );
                }
                Also::Share | Also::RevokedShare => {
                    let revoked = also == Also::RevokedShare;
                    let _ = write!(
                        sql,
                        "INSERT INTO leasehold.shares (key, token, fence, expires_at, process, revoked)
                         SELECT key, OWN, 5, expires_at, ME, {revoked} FROM leasehold.locks WHERE key = '{key}';"
                    );
                }
            }
            for (name, value) in [
                ("OWN", token(1, number)),
                ("OTHER", token(2, number)),
                ("ME", ME.to_owned()),
                ("WAITER", WAITER.to_owned()),
                ("HOLDER", HOLDER.to_owned()),
            ] {
                sql = sql.replace(name, &format!("'{value}'"));
            }
        }
        self.client.batch_execute(&sql).await.expect("rows");
        pinned
    }

    /// Sends requests in one call. Returns the result of each request, without times and fences.
    /// Fails if the answer for a held lock contains another fence than the table.
    async fn take(&self, asked: &[Asked]) -> Vec<String> {
        let take = "SELECT concat_ws(' ', x.taken, 'number', x.number, 'wanted', x.wanted, 'left', x.left_ms IS NULL, x.holder), x.fence
            FROM leasehold.take($1::text::uuid, $2, $3, $4::text[]::uuid[], $5, $6, $7, $8) x";
        let verbs: Vec<_> = asked.iter().map(|asked| asked.verb).collect();
        let keys: Vec<_> = asked.iter().map(|asked| self.key(asked.key)).collect();
        let tokens: Vec<_> = asked.iter().map(|asked| &asked.token).collect();
        let ttls = vec![30_000; asked.len()];
        let numbers: Vec<_> = asked.iter().map(|asked| asked.number).collect();
        let queues: Vec<_> = asked.iter().map(|asked| asked.queues).collect();
        let owners: Vec<_> = asked.iter().map(|asked| format!("{asked:?}")).collect();
        let rows = self
            .client
            .query(
                take,
                &[
                    &ME, &verbs, &keys, &tokens, &ttls, &numbers, &queues, &owners,
                ],
            )
            .await
            .expect("an answer");
        for (asked, row) in asked.iter().zip(&rows) {
            let table = "SELECT fence FROM leasehold.locks WHERE key = $1 AND token::text = $2 AND state = 'held'";
            let key = self.key(asked.key);
            let held = self.client.query_opt(table, &[&key, &asked.token]).await;
            let reported: Option<i64> = row.get(1);
            if let (Some(held), Some(reported)) = (held.expect("a fence"), reported) {
                assert_eq!(reported, held.get::<_, i64>(0), "{asked:?}");
            }
        }
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Like [`take`](Self::take), for the requests of `give`.
    async fn give(&self, asked: &[Asked]) -> Vec<String> {
        let give = "SELECT x.had::text FROM leasehold.give($1::text::uuid, $2, $3, $4::text[]::uuid[], $5) x";
        let verbs: Vec<_> = asked.iter().map(|asked| asked.verb).collect();
        let keys: Vec<_> = asked.iter().map(|asked| self.key(asked.key)).collect();
        let tokens: Vec<_> = asked.iter().map(|asked| &asked.token).collect();
        let keeps: Vec<_> = asked.iter().map(|asked| asked.keep).collect();
        let rows = self
            .client
            .query(give, &[&ME, &verbs, &keys, &tokens, &keeps])
            .await
            .expect("an answer");
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Returns the number of rows of the table `locks` that this connection has read. Two calls are
    /// comparable only within one transaction, because the server may reset this counter between
    /// transactions.
    async fn read(&self) -> i64 {
        let read = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'locks'";
        let read = self.client.query_one(read, &[]).await;
        read.expect("a count").get(0)
    }

    /// Returns the contents of the tables, without times and fences. Rows without a fence are left
    /// out, because a batch may create a row for a key that it then leaves unchanged.
    async fn tables(&self) -> Vec<String> {
        let look = "SELECT concat_ws(' ', substr(key, length($1) + 1), state, 'token', token, 'process', process, 'reserved',
                reserved, queued, most, function, expires_at > clock_timestamp(), fence > 5)
            FROM leasehold.locks WHERE starts_with(key, $1) AND fence > 0
            UNION ALL SELECT concat_ws(' ', 'waiter', substr(key, length($1) + 1), process)
            FROM leasehold.waiters WHERE starts_with(key, $1)
            UNION ALL SELECT concat_ws(' ', 'share', substr(key, length($1) + 1), process, CASE WHEN fence > 0 THEN token END)
            FROM leasehold.shares WHERE starts_with(key, $1) ORDER BY 1";
        let rows = self.client.query(look, &[&self.prefix]).await;
        let rows = rows.expect("the tables");
        rows.iter().map(|row| row.get(0)).collect()
    }
}

/// Time limit for the requests of one story (a sequence of requests). The store reserves a free
/// lock for a waiting process for one second. In a slower story that second could end between two
/// requests, and change their results.
const QUICK: Duration = Duration::from_millis(800);

/// Outcome of a story: the result of each request, and the tables afterwards.
type Outcome = (Vec<String>, Vec<String>);

/// Returns the outcome of one call with all requests, and the outcome of a separate call for each
/// request. Returns `None` if the machine was too slow.
async fn both_ways(
    batch: &Copy<'_>,
    alone: &Copy<'_>,
    asked: &[Asked],
    began: Instant,
) -> Option<[Outcome; 2]> {
    let gives = GIVES.contains(&asked[0].verb);
    let (mut together, mut one_by_one) = (Vec::new(), Vec::new());
    for (copy, parts, answers) in [
        (batch, asked.len(), &mut together),
        (alone, 1, &mut one_by_one),
    ] {
        for part in asked.chunks(parts) {
            answers.extend(if gives {
                copy.give(part).await
            } else {
                copy.take(part).await
            });
        }
    }
    let tables = [batch.tables().await, alone.tables().await];
    let [after_batch, after_alone] = tables;
    let quick = began.elapsed() < QUICK;
    quick.then_some([(together, after_batch), (one_by_one, after_alone)])
}

/// A sequence of requests: the initial states of the keys, and the calls in their order.
struct Story {
    kinds: Vec<usize>,
    calls: Vec<Vec<Asked>>,
}

/// Returns requests with this verb for the key 0: one for each combination of a token and the
/// options that the verb uses.
fn forms(verb: &'static str) -> Vec<Asked> {
    let mut forms = Vec::new();
    for kind in [1, 100] {
        let form = || Asked {
            verb,
            token: token(kind, 0),
            ..plain(0)
        };
        match verb {
            "acquire" | "join" => {
                for number in 0..3 {
                    forms.extend([true, false].map(|queues| Asked {
                        number,
                        queues,
                        ..form()
                    }));
                }
            }
            "release" | "part" => {
                forms.extend([None, Some(40_000)].map(|keep| Asked { keep, ..form() }));
            }
            _ => forms.push(form()),
        }
    }
    forms
}

/// Returns every form of request for every state of a key, in stories of up to `REQUESTS` requests.
fn every_request() -> Vec<Story> {
    let mut stories = Vec::new();
    for verbs in [&TAKES[..], &GIVES] {
        let forms = || verbs.iter().copied().flat_map(forms);
        let all = (0..ROWS.len()).flat_map(|kind| forms().map(move |asked| (kind, asked)));
        let mut all = all.peekable();
        while all.peek().is_some() {
            let (mut kinds, mut asked) = (Vec::new(), Vec::new());
            for (key, (kind, mut form)) in (0..REQUESTS).zip(&mut all) {
                form.key = key;
                form.token.replace_range(24.., &format!("{key:012x}"));
                kinds.push(kind);
                asked.push(form);
            }
            let calls = vec![asked];
            stories.push(Story { kinds, calls });
        }
    }
    stories
}

/// Returns a story of random requests, several of them for the same key.
fn by_chance(random: &mut Random) -> Story {
    let mut kind = || usize::try_from(random.below(ROWS.len() as u64)).expect("it is small");
    let kinds = (0..KEYS).map(|_| kind()).collect();
    let (takes, gives) = (requests(random, &TAKES), requests(random, &GIVES));
    Story {
        kinds,
        calls: vec![takes, gives],
    }
}

/// Fails if a call with several requests has another outcome than a separate call for each of them.
/// Before the requests, the row of a key is missing, free, blocked by a transaction, waited for,
/// held, expired, reserved, taken away, kept, or shared.
#[tokio::test]
async fn a_batch_has_the_same_results_as_single_requests() {
    let mut random = Random::seeded("batches and alone");
    // No pool uses this database, so no idle rows are removed.
    let database = Postgres::shared().migrated();
    let client = database.client().await;
    let mut application = database.client().await;
    let mut stories = every_request();
    stories.extend((0..ROUNDS).map(|_| by_chance(&mut random)));
    // Each story is repeated until the machine is fast enough for a comparison.
    let (mut tries, until) = (0, Instant::now() + LONG * 5);
    for story in &stories {
        while !is_the_same_both_ways(&client, &mut application, tries, story).await {
            assert!(Instant::now() < until, "slow after {tries} tries");
            tries += 1;
        }
        tries += 1;
    }
}

/// Returns false if the machine was too slow for a comparison.
async fn is_the_same_both_ways(
    client: &Client,
    application: &mut Client,
    number: u32,
    story: &Story,
) -> bool {
    let batch = Copy::of(client, &format!("batch:{number}:"));
    let alone = Copy::of(client, &format!("alone:{number}:"));
    let mut pinned = batch.make(&story.kinds).await;
    pinned.extend(alone.make(&story.kinds).await);
    let transaction = application.transaction().await.expect("it begins");
    let pin = "SELECT FROM leasehold.locks WHERE key = ANY ($1) FOR KEY SHARE";
    transaction.query(pin, &[&pinned]).await.expect("pins");
    let began = Instant::now();
    for asked in &story.calls {
        let Some([together, one_by_one]) = both_ways(&batch, &alone, asked, began).await else {
            return false;
        };
        assert_eq!(together, one_by_one, "{:?}: {asked:#?}", story.kinds);
    }
    true
}

/// A session plans its queries while the table is nearly empty. Fails if the session still reads
/// the whole table after the table has grown.
#[tokio::test]
async fn a_batch_reads_only_the_rows_of_its_keys() {
    const OTHERS: i32 = 5_000;
    // This test has a separate server. On a shared server, sessions of other tests can make this
    // session plan again after the table has grown. No pool uses the server, so no idle rows are
    // removed.
    let server = Postgres::start();
    let database = server.migrated();
    let mut client = database.client().await;
    let settings = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
        SET enable_hashjoin = off; SET enable_mergejoin = off;
        ALTER TABLE leasehold.locks SET (autovacuum_enabled = off)";
    client.batch_execute(settings).await.expect("settings");
    let vacuum = "VACUUM ANALYZE leasehold.locks";
    client.batch_execute(vacuum).await.expect("few rows");
    let of = |verb| move |key| Asked { verb, ..plain(key) };
    let acquires: Vec<_> = (0..KEYS).map(of("acquire")).collect();
    let releases: Vec<_> = (0..KEYS).map(of("release")).collect();
    let copy = Copy::of(&client, "few:");
    copy.take(&acquires).await;
    copy.give(&releases).await;
    // The rows are inserted over another connection, because `client` would make new plans after
    // inserts of its session. The rows sort before the requested keys, so that a scan of the index
    // reads them before it ends at the last requested key.
    let fill =
        "INSERT INTO leasehold.locks (key) SELECT 'before:' || i FROM generate_series(1, $1) AS i";
    let filled = database.client().await.execute(fill, &[&OTHERS]).await;
    filled.expect("rows");

    let transaction = client.transaction().await.expect("it begins");
    let copy = Copy::of(transaction.client(), "few:");
    let before = copy.read().await;
    let taken = copy.take(&acquires).await;
    assert!(taken.iter().all(|row| row.starts_with('t')), "{taken:?}");
    copy.give(&releases).await;
    let read = copy.read().await - before;
    println!("{read} rows read for {KEYS} keys, of {OTHERS}");
    assert!(read < i64::from(OTHERS) / 2, "{read} rows");
}

/// One call releases two locks twice, once with and once without `cooldown`. Fails if the second
/// release of a lock has an effect.
#[tokio::test]
async fn the_first_release_of_a_lock_counts() {
    let database = Postgres::shared().migrated();
    let client = database.client().await;
    let copy = Copy::of(&client, "twice:");
    let held = ROWS.iter().position(|(row, _)| row.contains("OWN"));
    copy.make(&[held.expect("one is"); 2]).await;
    let release = |key, keep| Asked {
        verb: "release",
        keep,
        ..plain(key)
    };
    let asked = [
        release(0, Some(40_000)),
        release(1, None),
        release(0, None),
        release(1, Some(40_000)),
    ];
    let had = copy.give(&asked).await;
    assert_eq!(had, ["true", "true", "false", "false"]);
    let tables = copy.tables().await;
    let states: Vec<_> = tables.iter().map(|row| row.split(' ').nth(1)).collect();
    assert_eq!(states, [Some("kept"), Some("free")]);
}
