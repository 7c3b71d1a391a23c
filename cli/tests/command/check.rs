//! `leasehold check`: a readiness probe.

use leasehold_tests::scratch::Scratch;
use leasehold_tests::server::{Server, ServerOptions};

use crate::harness::{ended, leasehold};

/// Fails if a usable server is not reported as ready, or if the warning about its missing
/// persistence is not shown.
#[test]
fn a_usable_server_is_ready() {
    let server = Server::start();
    let text = ended(leasehold(&server.url()).arg("check"));
    assert_eq!((text.code, text.err.as_str()), (Some(0), ""));
    let place = format!("127.0.0.1:{}", server.port());
    assert!(
        text.out.contains(&place) && text.out.contains(": ready"),
        "{text:?}"
    );
    assert!(text.out.contains("warning (persistence)"), "{text:?}");
    let json = ended(leasehold(&server.url()).args(["check", "--json"])).json();
    assert_eq!(json["ready"], true);
    let findings = json["findings"].as_array().expect("a list");
    let codes: Vec<_> = findings.iter().map(|finding| &finding["code"]).collect();
    assert!(codes.iter().any(|code| *code == "persistence"), "{json}");
    assert_eq!(findings[0]["severity"], "warning");
}

/// Fails if a replica is reported as ready, although it accepts no locks.
#[test]
fn a_replica_is_not_accepted() {
    let primary = Server::start();
    let replica = ServerOptions::new().replica_of(&primary).start();
    leasehold_tests::wait::until("it follows", crate::harness::LONG, || {
        replica.role().as_deref() == Some("slave")
    });
    let text = ended(leasehold(&replica.url()).arg("check"));
    assert_eq!(text.code, Some(1), "{text:?}");
    assert!(
        text.out.contains("not ready") && text.out.contains("error (role)"),
        "{text:?}"
    );
    let json = ended(leasehold(&replica.url()).args(["check", "--json"])).json();
    assert_eq!(json["ready"], false);
}

/// Fails if `leasehold check` accepts a killed server or a wrong password, or prints a password.
#[test]
fn an_unusable_server_is_not_ready() {
    let mut server = ServerOptions::new().password("secret").start();
    let url = format!("redis://:wrong@127.0.0.1:{}/", server.port());
    let refused = ended(leasehold(&url).arg("check"));
    assert_eq!(refused.code, Some(69), "{refused:?}");
    assert!(!refused.err.contains("wrong"), "{refused:?}");
    let url = server.url();
    assert_eq!(ended(leasehold(&url).arg("check")).code, Some(0));
    server.kill();
    let away = ended(leasehold(&url).args(["check", "--json"]));
    assert_eq!(away.event("error")["exit_code"], 69);
    assert!(!away.err.contains("secret"), "{away:?}");
}

/// Fails if `leasehold check` does not use the password in a file, or does not name a missing file
/// in its error.
#[test]
fn a_password_file_is_used() {
    let server = ServerOptions::new().password("hunter2").start();
    let folder = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.file("password");
    std::fs::write(&file, "hunter2\n").expect("the folder is writable");
    let url = format!("redis://127.0.0.1:{}/", server.port());
    let by_flag = || {
        ended(
            leasehold(&url)
                .args(["check", "--password-file"])
                .arg(&file),
        )
    };
    let by_variable = |file: &std::ffi::OsStr| {
        let mut command = leasehold(&url);
        ended(command.arg("check").env("LEASEHOLD_PASSWORD_FILE", file))
    };
    for ended in [by_flag(), by_variable(file.as_os_str())] {
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    }
    let unset = by_variable(std::ffi::OsStr::new(""));
    assert_eq!(unset.code, Some(69), "{unset:?}");
    assert!(unset.err.contains("NOAUTH"), "{unset:?}");
    std::fs::remove_file(&file).expect("it was written");
    let missing = by_flag();
    assert_eq!(missing.code, Some(69), "{missing:?}");
    assert!(
        missing.err.contains(&file.display().to_string()),
        "{missing:?}"
    );
}
