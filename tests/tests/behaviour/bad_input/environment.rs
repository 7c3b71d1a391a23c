//! Tests of `init_from_env`. Each case runs in a separate process, because the environment belongs
//! to the process.

use std::time::{Duration, Instant};

use leasehold_tests::scratch::Scratch;
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::worker::{Event, Job, Scenario, Worker};

use super::{Began, CANARY};

/// Names and values of environment variables.
type Variables<'a> = &'a [(&'a str, &'a str)];

/// Time limit for the end of a process. Even on a busy machine, a process needs less.
const LIMIT: Duration = Duration::from_secs(60);

fn outcome(environment: Variables) -> Event {
    let job = Job {
        url: String::new(),
        key: String::new(),
        ttl_ms: 0,
        wait_ms: 0,
        watchdog: false,
        scenario: Scenario::InitFromEnv,
    };
    let started = Began::now();
    let mut worker = Worker::spawn_with(env!("CARGO_BIN_EXE_worker"), &job, environment);
    let end = worker.wait_end(LIMIT);
    started.expect_within(Duration::from_secs(3), "the process");
    end
}

#[test]
fn invalid_variables_are_named() {
    let url = format!("http://:{CANARY}@host/");
    let memory = ("LEASEHOLD_URL", "memory://env");
    let cases: &[(Variables, &[&str])] = &[
        (&[], &["LEASEHOLD_URL", "redis://"]),
        (&[("LEASEHOLD_URL", "")], &["redis://"]),
        (&[("LEASEHOLD_URL", &url)], &["`http`", "redis://"]),
        (
            &[memory, ("LEASEHOLD_WAIT", "10")],
            &["LEASEHOLD_WAIT", "`10`", "2s"],
        ),
        (
            &[memory, ("LEASEHOLD_WAIT", "soon")],
            &["LEASEHOLD_WAIT", "`soon`"],
        ),
        (
            &[memory, ("LEASEHOLD_WAIT", "-1s")],
            &["LEASEHOLD_WAIT", "`-1s`"],
        ),
        (&[memory, ("LEASEHOLD_NAMESPACE", "a\nb")], &["namespace"]),
    ];
    for (environment, expected) in cases {
        let Event::Failed { kind, text } = outcome(environment) else {
            panic!("{environment:?} is accepted");
        };
        assert_eq!(kind, "Config", "{environment:?}: {text}");
        for fragment in *expected {
            assert!(
                text.contains(fragment),
                "{environment:?}: no {fragment:?} in {text:?}"
            );
        }
        assert!(!text.contains(CANARY), "{text}");
    }
}

/// Fails if the installed pool has another namespace than the variables specify, or if its calls do
/// not wait by default.
#[test]
fn valid_variables_are_used() {
    let server = Server::start();
    let url = server.url();
    let environment = [
        ("LEASEHOLD_URL", &*url),
        ("LEASEHOLD_NAMESPACE", "shop"),
        ("LEASEHOLD_WAIT", "1m 30s"),
    ];
    assert_eq!(patient_outcome(&environment), Event::Done);
    let left = server.probe().keys("shop:env-*");
    assert_eq!(left.len(), 1, "the lock of the process");
}

/// Runs a process with these variables. If the process cannot reach the store, as may happen on a
/// busy machine, starts another process, for up to `LIMIT`.
fn patient_outcome(environment: Variables) -> Event {
    let end = Instant::now() + LIMIT;
    let mut ended = outcome(environment);
    while matches!(&ended, Event::Failed { kind, .. } if kind == "Unavailable")
        && Instant::now() < end
    {
        ended = outcome(environment);
    }
    ended
}

/// `LEASEHOLD_PASSWORD_FILE` names a file that contains the password. Fails if the pool does not
/// use this password. After the removal of the file, also fails if the error does not name it.
#[test]
fn a_password_file_is_used() {
    let server = ServerOptions::new().password(CANARY).start();
    let folder = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.file("password");
    std::fs::write(&file, format!("{CANARY}\n")).expect("the folder is writable");
    let url = format!("redis://127.0.0.1:{}/", server.port());
    let shown = file.display().to_string();
    let environment = [
        ("LEASEHOLD_URL", &*url),
        ("LEASEHOLD_PASSWORD_FILE", &shown),
    ];
    assert_eq!(patient_outcome(&environment), Event::Done);
    std::fs::remove_file(&file).expect("it was written");
    let Event::Failed { kind, text } = outcome(&environment) else {
        panic!("the file is gone");
    };
    assert_eq!(kind, "Unavailable", "{text}");
    assert!(text.contains(&shown), "{text}");
}
