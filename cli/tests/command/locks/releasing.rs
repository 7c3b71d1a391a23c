//! `leasehold release`, which takes a lock away from its holder.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStderr, ChildStdin, Stdio};

use leasehold::LockPool;
use leasehold_tests::server::Server;
use leasehold_tests::{room, wait};
use redis::cmd;

use super::scene::Scene;
use crate::harness::journal::Journal;
use crate::harness::{Ended, LONG, Running, ended, leasehold, run};

/// Starts `leasehold release` with pipes.
fn begin(url: &str, key: &str) -> Child {
    let mut command = leasehold(url);
    command.args(["release", key]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("the command starts")
}

/// Runs `leasehold release`, and writes `answer` to its standard input.
fn answered(url: &str, key: &str, answer: &str) -> Ended {
    let mut child = begin(url, key);
    let mut input = child.stdin.take().expect("it is piped");
    // The write fails if the command asks no question and has ended already. This error is ignored.
    let _ = input.write_all(answer.as_bytes());
    drop(input);
    Ended::new(&child.wait_with_output().expect("it ends"))
}

/// `leasehold release` for one lock, with its questions.
struct Dialog {
    command: Child,
    input: ChildStdin,
    questions: ChildStderr,
}

impl Dialog {
    fn begin(url: &str, key: &str) -> Self {
        let mut command = begin(url, key);
        Self {
            input: command.stdin.take().expect("it is piped"),
            questions: command.stderr.take().expect("it is piped"),
            command,
        }
    }

    /// Reads the next question.
    fn is_asked(&mut self) {
        let mut text = Vec::new();
        while !text.ends_with(b"[y/N] ") {
            let mut byte = [0];
            self.questions.read_exact(&mut byte).expect("a question");
            text.push(byte[0]);
        }
    }

    fn answer(&mut self, answer: &str) {
        writeln!(self.input, "{answer}").expect("it reads");
    }

    fn code(mut self) -> Option<i32> {
        self.command.wait().expect("it ends").code()
    }
}

/// `leasehold release` asks for a confirmation. Fails if any answer but yes takes the lock away, or
/// if the question does not name the holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_needs_a_confirmation() {
    let scene = Scene::begin().await;
    let url = scene.server.url();
    for answer in ["", "\n", "n\n", "no\n", "yeah, no\n"] {
        let refused = answered(&url, "order-42", answer);
        assert_eq!(
            (refused.code, refused.out.as_str()),
            (Some(1), ""),
            "{answer}"
        );
        let question = "`order-42`, held by leasehold_tests::holder::held on ";
        assert!(refused.err.contains(question), "{refused:?}");
        assert!(refused.err.contains("was not released"), "{refused:?}");
    }
    let lock = scene.pool.inspect("order-42").await.expect("it answers");
    assert!(lock.is_taken());
    let done = answered(&url, "order-42", "y\n");
    assert_eq!(done.code, Some(0), "{done:?}");
    let reported = "released `order-42`, held by leasehold_tests::holder::held on ";
    assert!(done.out.starts_with(reported), "{done:?}");
    wait::until_async("the holder is notified", LONG, || {
        scene.exclusive.task.is_finished()
    })
    .await;
}

/// While `leasehold release` waits for the confirmation, the lock gets its next holder, and later a
/// cooldown. Fails if the answer takes the lock away without another question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmation_is_for_the_named_holder() {
    let server = Server::start();
    let url = server.url();
    let pool = wait::connected(LockPool::builder().url(&url)).await;
    let first = pool.lock("job").ttl(LONG).acquire().await.expect("free");
    let mut dialog = Dialog::begin(&url, "job");
    dialog.is_asked();
    first.release().await.expect("held");
    let next = pool.lock("job").ttl(LONG).acquire().await.expect("free");
    dialog.answer("y");
    dialog.is_asked();
    next.release_after(LONG).await.expect("held");
    dialog.answer("y");
    dialog.is_asked();
    dialog.answer("n");
    assert_eq!(dialog.code(), Some(1));
    assert!(pool.inspect("job").await.expect("it answers").is_taken());
}

/// While `leasehold release` waits for the confirmation, another client without leasehold gets the
/// lock, with a later end or without an end. Fails if the answer takes it away without another
/// question.
#[test]
fn a_confirmation_is_for_the_named_foreign_client() {
    let server = Server::start();
    let probe = server.probe();
    let set = |options: &[&str]| {
        let mut set = cmd("SET");
        set.arg("lock:job").arg("a script").arg(options);
        assert_eq!(probe.run::<String>(&set), "OK");
    };
    for next in [&["EX", "700"][..], &[]] {
        set(&["EX", "600"]);
        let mut dialog = Dialog::begin(&server.url(), "job");
        dialog.is_asked();
        set(next);
        dialog.answer("y");
        dialog.is_asked();
        dialog.answer("y");
        assert_eq!(dialog.code(), Some(0));
    }
}

/// Fails if `release` reports a free lock as released, or asks for a confirmation to release it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_free_lock_is_not_reported_as_released() {
    let scene = Scene::begin().await;
    let url = scene.server.url();
    let json = ended(leasehold(&url).args(["release", "partner", "--yes", "--json"]));
    assert_eq!(json.code, Some(0), "{json:?}");
    let json = json.json();
    assert_eq!(
        (&json["released"], &json["key"]),
        (&true.into(), &"partner".into())
    );
    assert_eq!(
        json["was"]["holders"][0]["owner"]["pid"],
        std::process::id()
    );
    let store = format!("redis://{}", scene.server.address());
    assert_eq!(
        (&json["namespace"], &json["store"]),
        (&"lock".into(), &store.into())
    );
    let kept = ended(leasehold(&url).args(["release", "payment:7", "-y"]));
    assert_eq!(kept.code, Some(0), "{kept:?}");
    assert!(
        kept.out
            .contains("`payment:7`, which no process holds: kept"),
        "{kept:?}"
    );
    let again = ended(leasehold(&url).args(["release", "payment:7", "-y"]));
    assert_eq!((again.code, again.out.as_str()), (Some(1), ""), "{again:?}");
    let address = scene.server.address();
    let free = format!("the lock `payment:7` is free in namespace `lock` on redis://{address}\n");
    assert!(again.err.ends_with(&free), "{again:?}");
    let unasked = answered(&url, "payment:7", "");
    assert_eq!(unasked.code, Some(1));
    assert!(!unasked.err.contains("[y/N]"), "{unasked:?}");
    let json = ended(leasehold(&url).args(["release", "payment:7", "--yes", "--json"]));
    assert_eq!(json.code, Some(1));
    let json = json.json();
    assert_eq!(json["released"], false);
    assert_eq!(json["namespace"], "lock");
    assert_eq!(json["store"], format!("redis://{address}"));
}

/// An operator takes the lock of a running command away while another process waits for this lock.
/// Fails if the first command still runs when the next command has started.
#[test]
fn a_command_ends_before_the_next_holder_starts() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let url = server.url();
    let script = format!(
        "trap '' TERM; {}; {}",
        journal.note("ran"),
        journal.beat("first")
    );
    let first = Running::start(&mut run(&url, "job", &["--ttl", "60s"], &script));
    journal.wait_for("ran");
    let options = ["--ttl", "60s", "--wait", "60s"];
    let next = Running::start(&mut run(
        &url,
        "job",
        &options,
        &journal.beat_until("next", "end"),
    ));
    let released = ended(leasehold(&url).args(["release", "job", "--yes"]));
    assert_eq!(released.code, Some(0), "{released:?}");
    journal.wait_for_many("next", 100);
    journal.has_in_order("first", "next");
    let first = first.wait();
    assert_eq!(first.code, Some(137), "{first:?}");
    assert!(
        first
            .err
            .contains("the lock `job` was taken away by an operator"),
        "{first:?}"
    );
    journal.open("end");
    assert_eq!(next.wait().code, Some(0));
}

/// The `--max-hold` of a command is over, and the command does not end in its grace. Then an
/// operator takes the lock away. Fails if the command still runs when the next command has started.
#[test]
fn a_release_shortens_the_grace_of_max_hold() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let url = server.url();
    let script = format!(
        "trap \"{}\" TERM; {}",
        journal.note("asked"),
        journal.beat("first")
    );
    let options = ["--ttl", "10s", "--max-hold", "10s"];
    let first = Running::start(&mut run(&url, "job", &options, &script));
    journal.wait_for("first");
    let options = ["--ttl", "60s", "--wait", "60s"];
    let beats = journal.beat_until("next", "end");
    let next = Running::start(&mut run(&url, "job", &options, &beats));
    journal.wait_for("asked");
    let released = ended(leasehold(&url).args(["release", "job", "--yes"]));
    assert_eq!(released.code, Some(0), "{released:?}");
    journal.wait_for_many("next", 100);
    journal.has_in_order("first", "next");
    assert_eq!(first.wait().code, Some(137));
    journal.open("end");
    assert_eq!(next.wait().code, Some(0));
}

/// A command is stopped, once because an operator has taken its lock away, and once because the
/// lock's key was deleted. Fails if the JSON event `stopping` does not give this reason.
#[test]
fn the_event_of_a_stopped_command_has_its_reason() {
    let _room = room::enter();
    let server = Server::start();
    let url = server.url();
    for reason in ["taken_away", "lost"] {
        let journal = Journal::new();
        let script = format!("{}; exec sleep 600", journal.note("ran"));
        let options = ["--json", "--ttl", "10s"];
        let holder = Running::start(&mut run(&url, "job", &options, &script));
        journal.wait_for("ran");
        if reason == "taken_away" {
            let released = ended(leasehold(&url).args(["release", "job", "--yes"]));
            assert_eq!(released.code, Some(0), "{released:?}");
        } else {
            let _: u32 = server.probe().run(redis::cmd("DEL").arg("lock:job"));
        }
        let stopped = holder.wait();
        let stopping = stopped.event("stopping");
        assert_eq!(
            (&stopping["reason"], &stopping["key"]),
            (&reason.into(), &"job".into())
        );
        assert_eq!(stopped.event("ended")["lost"], true, "{stopped:?}");
    }
}
