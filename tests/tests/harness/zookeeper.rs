//! Checks that ZooKeeper's servers, their network and Curator's client behave as the other tests
//! expect.

use std::time::Duration;

use leasehold_tests::pipe::Flow;
use leasehold_tests::probe::Probe as _;
use leasehold_tests::recorder::Recorder;
use leasehold_tests::session_server::{SessionProbe as _, SessionServer as _, addresses, leader};
use leasehold_tests::wait;
use leasehold_tests::zookeeper::{CuratorPeer, Errand, Settings, Zookeeper};

const LONG: Duration = Duration::from_secs(60);

/// Maximum session time-out that a test configures on a server. The default is twenty of the
/// server's ticks.
const LONGEST: Duration = Duration::from_secs(3_600);

#[test]
fn a_killed_server_keeps_its_nodes() {
    let mut server = Zookeeper::start();
    assert_eq!(server.mode().as_deref(), Some("standalone"));
    let probe = server.probe("kept", "lock:");
    for round in 0..3 {
        assert!(probe.take(&format!("k{round}"), LONG));
        server.restart();
        for earlier in 0..=round {
            let key = format!("k{earlier}");
            assert!(probe.untouched(&key) && !probe.take(&key, LONG), "{key}");
        }
    }
    assert_eq!(probe.left().len(), 3);
    probe.give_back("k1");
    assert!(!probe.exists("k1"));
}

#[test]
fn sessions_last_as_long_as_configured() {
    let tick = Duration::from_millis(250);
    let settings = Settings::new().longest_session(LONGEST);
    for (settings, shortest, longest) in [
        (Settings::new(), 1_000, 10_000),
        (Settings::new().tick(tick), 500, 5_000),
        (settings, 1_000, 3_600_000),
    ] {
        let server = settings.start();
        let reported = server.word("conf").expect("it answers");
        for line in [
            format!("minSessionTimeout={shortest}\n"),
            format!("maxSessionTimeout={longest}\n"),
        ] {
            assert!(reported.contains(&line), "{line}: {reported}");
        }
    }
}

#[test]
fn a_paused_server_answers_after_it_resumes() {
    let server = Zookeeper::start();
    server.pause();
    assert_eq!(server.mode(), None);
    server.resume();
    wait::until("it goes on", LONG, || server.mode().is_some());
}

#[test]
fn a_restricted_node_is_closed_to_other_clients() {
    let server = Zookeeper::shared();
    let client = server.client();
    client.make_path("/restricted/inside");
    client.restrict("/restricted", "u", "hunter2");
    assert_eq!(client.names("/restricted"), ["inside"]);
    let other = server.client();
    let refused = std::panic::catch_unwind(|| other.names("/restricted"));
    assert!(refused.is_err(), "it may not look");
}

fn all_serve(servers: &[Zookeeper]) {
    let all = || servers.iter().all(|server| server.mode().is_some());
    wait::until("all serve", LONG, all);
}

#[test]
fn another_member_leads_after_a_failure_of_the_leader() {
    let (mut servers, network) = Settings::new().ensemble_with_network(3);
    let first = leader(&servers, None);
    let probe = servers[first].probe("led", "lock:");
    assert!(probe.take("k", LONG));

    servers[first].kill();
    let second = leader(&servers, Some(first));
    servers[first].restart();
    assert!(servers[second].probe("led", "lock:").exists("k"));

    servers[second].pause();
    let third = leader(&servers, Some(second));
    servers[second].resume();
    // For a moment, the replaced leader still considers itself the leader.
    let follows = || servers[second].mode().as_deref() == Some("follower");
    wait::until("it follows", LONG, follows);
    all_serve(&servers);

    network.set(third, Flow::BlackHole);
    let fourth = leader(&servers, Some(third));
    let steps_down = || servers[third].mode().is_none();
    wait::until("it steps down", LONG, steps_down);
    assert!(servers[fourth].probe("led", "lock:").exists("k"));
    network.set(third, Flow::Pass);
    network.cut(third);
    all_serve(&servers);
    for server in &servers {
        assert!(server.probe("led", "lock:").exists("k"));
    }
}

#[test]
fn an_ensemble_recovers_after_all_were_killed() {
    let mut servers = Zookeeper::cluster(3);
    assert!(servers[0].probe("all", "lock:").take("k", LONG));
    for server in &mut servers {
        server.kill();
    }
    for server in &mut servers {
        server.begin_restart();
    }
    for server in &mut servers {
        server.serves();
    }
    assert!(servers[2].probe("all", "lock:").exists("k"));
}

/// Fails if two processes with Curator's client have the lock at the same time. Also fails if the
/// lock of a killed process never becomes free.
#[test]
fn curator_processes_exclude_each_other() {
    let server = Zookeeper::start();
    let time = Duration::from_secs(8);
    let errand = Errand {
        servers: addresses([server.address()]),
        path: "/curator/k".to_owned(),
        session: Duration::from_secs(1),
        time,
        stay: Duration::from_millis(5),
        pause: Duration::from_millis(2),
    };
    let mut killed = CuratorPeer::start(&errand);
    let others = [0, 1].map(|_| CuratorPeer::start(&errand));
    killed.wait_inside(LONG);
    let recorder = Recorder::new();
    let before = killed.kill();
    let end = before
        .last()
        .and_then(|last| last.left)
        .expect("it has been inside");
    for section in before {
        recorder.add(section);
    }
    let mut after = 0;
    for other in others {
        let (sections, lost) = other.finish(time);
        assert_eq!(lost, 0, "nothing happened to it");
        after += sections.iter().filter(|it| end < it.entered).count();
        for section in sections {
            recorder.add(section);
        }
    }
    println!("{} sections, {after} after the kill", recorder.len());
    assert!(0 < after, "the lock comes free");
    recorder.verify();
}

/// The server pauses for longer than a session lasts. Fails if a process with Curator's client
/// stays inside its lock although Curator reports that the lock may be lost.
#[test]
fn a_curator_process_stops_without_its_server() {
    let server = Zookeeper::start();
    let errand = Errand {
        servers: addresses([server.address()]),
        path: "/curator/k".to_owned(),
        session: Duration::from_secs(2),
        time: LONG * 4,
        stay: LONG * 4,
        pause: Duration::ZERO,
    };
    let mut peer = CuratorPeer::start(&errand);
    peer.wait_inside(LONG);
    server.pause();
    std::thread::sleep(Duration::from_secs(3));
    server.resume();
    peer.wait_inside(LONG);
    let sections = peer.kill();
    assert!(
        2 <= sections.len(),
        "it gave up, and asked again: {sections:?}"
    );
}
