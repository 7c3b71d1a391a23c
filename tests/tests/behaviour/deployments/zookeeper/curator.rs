//! Tests with locks of the Java library Curator. Java services and leasehold must exclude each
//! other on one path, and wait in one queue.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{LockError, LockPool};
use leasehold_tests::clock;
use leasehold_tests::probe::Probe as _;
use leasehold_tests::recorder::{Recorder, Section};
use leasehold_tests::session_server::{SessionProbe as _, SessionServer as _, addresses};
use leasehold_tests::wait;
use leasehold_tests::worker::{Job, Scenario, Worker};
use leasehold_tests::zookeeper::{CuratorPeer, Errand, Zookeeper};
use tokio::task::JoinSet;

use crate::deployments::session_servers::{LONG, connect};

/// Duration of Curator's sessions. It is longer than the delays of a busy machine, because a
/// Curator process continues to use the lock after its session has ended.
const SESSION: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(5);
const STAY: Duration = Duration::from_millis(5);

fn errand(servers: &[Zookeeper], path: String, time: Duration) -> Errand {
    Errand {
        servers: addresses(servers.iter().map(Zookeeper::address)),
        path,
        session: SESSION,
        time,
        stay: STAY,
        pause: Duration::from_millis(2),
    }
}

/// Takes the lock with leasehold again and again until `end`. Records the times of holding under
/// `path`.
async fn ours(pool: LockPool, path: String, recorder: Arc<Recorder>, end: u64) {
    while clock::now() < end {
        let acquired = pool
            .lock("k")
            .ttl(TTL)
            .wait(LONG)
            .watchdog()
            .acquire()
            .await;
        let guard = match acquired {
            Ok(guard) => guard,
            Err(error) if error.is_unavailable() => continue,
            Err(error) => panic!("{error}"),
        };
        let deadline = clock::in_future(guard.remaining());
        let inside = recorder.enter(&path, guard.fence().map(u64::from), deadline);
        tokio::time::sleep(STAY).await;
        drop(inside);
        match guard.release().await {
            Ok(()) | Err(LockError::Lost { .. }) => {}
            Err(error) if error.is_unavailable() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Starts a process of leasehold, and kills it while it holds the lock. Returns this hold, which
/// ends at the kill.
fn one_of_ours_is_killed(url: &str, path: &str) -> Vec<Section> {
    let job = Job {
        url: url.to_owned(),
        key: "k".to_owned(),
        ttl_ms: 5_000,
        wait_ms: 60_000,
        watchdog: true,
        scenario: Scenario::Hold,
    };
    let mut worker = Worker::spawn(env!("CARGO_BIN_EXE_worker"), &job);
    worker.wait_entered(LONG);
    std::thread::sleep(Duration::from_millis(300));
    worker.process().kill();
    let killed = clock::now();
    let mut sections = worker.sections(path);
    for section in &mut sections {
        section.left = Some(killed);
        // The process reported this deadline when it got the lock, and may have renewed its lease
        // after that. So the lease lasted at least until the kill.
        section.deadline = section.deadline.max(killed);
    }
    sections
}

/// Runs two processes of Curator and two pools of leasehold on one path. Meanwhile one process of
/// Curator and one of leasehold are killed, and `disturb` acts on the servers.
async fn together(
    servers: &mut [Zookeeper],
    chroot: &str,
    time: Duration,
    disturb: impl AsyncFnOnce(&mut [Zookeeper]),
) {
    let url = Zookeeper::url_of(servers, chroot);
    let probe = servers[0].probe(chroot, "lock:");
    let path = probe.directory("k");
    let errand = errand(servers, path.clone(), time);
    let recorder = Arc::new(Recorder::new());
    let (mut killed, stays) =
        tokio::task::block_in_place(|| (CuratorPeer::start(&errand), CuratorPeer::start(&errand)));
    let end = clock::in_future(time);
    let mut pools = JoinSet::new();
    for _ in 0..2 {
        let (pool, recorder) = (connect(&url).await, Arc::clone(&recorder));
        pools.spawn(ours(pool, path.clone(), recorder, end));
    }
    let kill = async {
        let (url, path) = (url.clone(), path.clone());
        let by_kill = tokio::task::spawn_blocking(move || {
            killed.wait_inside(LONG);
            let mut sections = killed.kill();
            sections.extend(one_of_ours_is_killed(&url, &path));
            sections
        });
        by_kill.await.expect("no panic")
    };
    let (sections, ()) = tokio::join!(kill, disturb(servers));
    while let Some(ended) = wait::within("ours end", LONG * 2, pools.join_next()).await {
        ended.expect("no panic");
    }
    let of_ours = recorder.len();
    let last_kill = sections
        .iter()
        .filter_map(|it| it.left)
        .max()
        .expect("two were killed");
    let (of_curator, lost) = tokio::task::block_in_place(|| stays.finish(time));
    let after = of_curator
        .iter()
        .filter(|it| last_kill < it.entered)
        .count();
    println!(
        "{of_ours} sections of ours, {} of Curator's ({lost} given up), {after} after the kills",
        of_curator.len()
    );
    assert!(0 < of_ours && 0 < after, "both are served");
    sections
        .into_iter()
        .chain(of_curator)
        .for_each(|it| recorder.add(it));
    recorder.verify();
    wait::until("no node is left", LONG, || !probe.exists("k"));
}

/// Fails if leasehold and Curator hold the lock at the same time, or if one of them never gets the
/// lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_and_leasehold_exclude_each_other() {
    let mut servers = [Zookeeper::start()];
    // After each of the two kills a session must end, which takes up to ten seconds.
    let time = Duration::from_secs(30);
    together(&mut servers, "curator", time, async |_| ()).await;
}

/// Fails if leasehold and Curator hold the lock at the same time after the leader of the ensemble
/// was killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclusion_holds_while_leaders_are_killed() {
    let mut servers = Zookeeper::cluster(3);
    // Longer than in the test above, because a killed server restarts slowly on a busy machine.
    let time = Duration::from_secs(45);
    together(&mut servers, "curator", time, async |servers| {
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let Some(leader) = servers.iter().position(Zookeeper::leads) else {
                continue;
            };
            servers[leader].kill();
            tokio::time::sleep(Duration::from_secs(1)).await;
            tokio::task::block_in_place(|| servers[leader].restart());
        }
    })
    .await;
}

/// A Curator process begins to wait for the lock before a pool of leasehold does. Fails if the pool
/// gets the lock first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_and_leasehold_share_one_queue() {
    let servers = [Zookeeper::start()];
    let pool = connect(&Zookeeper::url_of(&servers, "queue")).await;
    let probe = servers[0].probe("queue", "lock:");
    let held = pool
        .lock("k")
        .ttl(TTL)
        .wait(LONG)
        .watchdog()
        .acquire()
        .await;
    let held = held.expect("it is free");
    let errand = Errand {
        stay: Duration::from_millis(300),
        ..errand(&servers, probe.directory("k"), LONG * 4)
    };
    let mut peer = tokio::task::block_in_place(|| CuratorPeer::start(&errand));
    wait::until_async("it queues", LONG, || probe.nodes("k").len() == 2).await;
    let other = connect(&Zookeeper::url_of(&servers, "queue")).await;
    let behind = other.lock("k").ttl(TTL).wait(LONG).acquire();
    let behind = wait::started(behind).await;
    let behind = tokio::spawn(behind);
    wait::until_async("ours queues", LONG, || probe.nodes("k").len() == 3).await;
    held.release().await.expect("still held");
    tokio::task::block_in_place(|| peer.wait_inside(LONG));
    let guard = behind.await.expect("no panic").expect("its turn comes");
    let entered = clock::now();
    guard.release().await.expect("still held");
    let sections = tokio::task::block_in_place(|| peer.kill());
    let first = sections[0].left.expect("it has left");
    assert!(first <= entered, "Curator's came first");
}
