//! State that a child process inherits, except signals. The command must inherit the same state as
//! if the parent of `leasehold run` had started the command directly.

use std::fs;
use std::path::Path;

use leasehold_tests::server::Server;

use crate::harness::journal::Journal;
use crate::harness::parent::{Outputs, started_by};
use crate::harness::{Running, ended, leasehold, quoted};

const IGNORE_PIPE: &str = "signal.signal(signal.SIGPIPE, signal.SIG_IGN)";

/// Fails if a row of the table in `inherited_state.md` names no test, or a test that does not
/// exist.
#[test]
fn the_page_names_a_test_for_each_state() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &Path| fs::read_to_string(file).expect("the file is there");
    let page = read(&folder.join("tests/command/run/inherited_state.md"));
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 15, "{rows:?}");
    for row in &rows[2..] {
        let named = row
            .trim_end_matches(" |")
            .rsplit_once(" | ")
            .expect("columns")
            .1;
        for name in named.split(", ") {
            let (module, test) = name.trim_matches('`').split_once("::").expect("a test");
            let file = folder
                .join("tests/command/run")
                .join(module)
                .with_extension("rs");
            assert!(
                read(&file).contains(&format!("#[test]\nfn {test}()")),
                "{row}"
            );
        }
    }
}

/// Fails if the command does not inherit the parent's umask, which limits the permissions of new
/// files.
#[test]
fn the_umask_is_inherited() {
    let [direct, run] = Outputs::status("os.umask(0o027)", &["Umask:"]);
    assert_eq!(direct, ["Umask:\t0027"]);
    assert_eq!(direct, run);
}

/// Fails if the command has another user, other groups or other rights than the parent of
/// `leasehold run`.
#[test]
fn user_groups_and_rights_are_inherited() {
    let lines = [
        "Uid:",
        "Gid:",
        "Groups:",
        "NoNewPrivs:",
        "Seccomp:",
        "CapInh:",
        "CapPrm:",
        "CapEff:",
        "CapBnd:",
        "CapAmb:",
    ];
    // Sets PR_SET_NO_NEW_PRIVS (38), as systemd does for `NoNewPrivileges=yes`.
    let setup = "assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0";
    let [direct, run] = Outputs::status(setup, &lines);
    assert!(direct.contains(&"NoNewPrivs:\t1".to_owned()), "{direct:?}");
    assert_eq!(direct, run);
    // Repeats the check with a parent that keeps all its rights.
    let [direct, run] = Outputs::status("", &lines);
    assert_eq!(direct, run);
}

/// Fails if the command does not inherit the parent's priority, scheduling policy and processors.
#[test]
fn priority_and_processors_are_inherited() {
    let setup = "\
os.nice(3)
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})";
    let [direct, run] = Outputs::status(setup, &["Cpus_allowed:"]);
    assert_eq!(direct, run);
    let outputs = Outputs::of(setup, &["cat", "/proc/self/stat"]);
    let [direct, run] = [outputs.direct, outputs.run].map(|stat| {
        let fields: Vec<String> = stat.split(' ').map(str::to_owned).collect();
        // Indexes in `/proc/self/stat`: priority, nice value and scheduling policy.
        [17, 18, 40].map(|at| fields[at].clone())
    });
    assert_eq!(direct[2], "3", "SCHED_BATCH");
    assert_eq!(direct, run);
}

/// Fails if the command does not inherit the parent's resource limits. They are set by `ulimit`, or
/// by systemd with `LimitNOFILE=` and `LimitCORE=`.
#[test]
fn limits() {
    let setup = "\
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
resource.setrlimit(resource.RLIMIT_CORE, (0, 4096))
resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 22))";
    let outputs = Outputs::of(setup, &["cat", "/proc/self/limits"]);
    let files = outputs
        .direct
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let files: Vec<&str> = files.expect("a line").split_ascii_whitespace().collect();
    assert_eq!(files[3..5], ["100", "200"]);
    assert_eq!(outputs.direct, outputs.run);
}

/// Fails if the command does not run in the parent's current directory. Also fails if a program
/// with a relative path is not found there.
#[test]
fn the_current_directory_is_inherited() {
    let journal = Journal::new();
    let folder = journal.file("folder");
    fs::create_dir(&folder).expect("the folder is writable");
    std::os::unix::fs::symlink("/bin/pwd", folder.join("program")).expect("a link");
    let folder = folder.to_str().expect("text");
    let setup = format!("os.chdir({})", quoted(folder));
    let outputs = Outputs::of(&setup, &["./program"]);
    assert_eq!(outputs.direct.trim_end(), folder);
    assert_eq!(outputs.direct, outputs.run);
}

/// Fails if the command does not inherit the parent's out-of-memory score.
#[test]
fn the_out_of_memory_score_is_inherited() {
    let setup = "open('/proc/self/oom_score_adj', 'w').write('700')";
    let outputs = Outputs::of(setup, &["cat", "/proc/self/oom_score_adj"]);
    assert_eq!(outputs.direct, "700\n");
    assert_eq!(outputs.direct, outputs.run);
}

/// A parent without a terminal, like cron and systemd, starts `leasehold run`. Fails if the command
/// leaves the parent's session. Also fails if the command is in the process group of `leasehold
/// run`. A signal to this group would then reach the command twice, because `leasehold run` also
/// passes the signal on.
#[test]
fn group_and_session_are_inherited() {
    let server = Server::start();
    let mut inner = leasehold(&server.url());
    inner.args(["run", "job", "--", "cat", "/proc/self/stat"]);
    let holder = Running::start(&mut started_by("os.setsid()", &inner));
    let session = holder.id();
    let ended = holder.wait();
    let fields: Vec<&str> = ended.out.split(' ').collect();
    let [id, group, own, terminal] = [0, 4, 5, 6].map(|at| fields[at]);
    assert_eq!(group, id, "{ended:?}");
    assert_eq!(own, session.to_string(), "{ended:?}");
    assert_eq!(terminal, "0", "{ended:?}");
}

/// Fails if the command inherits an open file that only `leasehold run` needs, or does not inherit
/// an open file of the parent.
#[test]
fn only_open_files_of_the_parent_are_inherited() {
    let outputs = Outputs::of("os.dup2(1, 7)", &["ls", "/proc/self/fd"]);
    assert!(outputs.direct.ends_with("\n7\n"), "{}", outputs.direct);
    assert_eq!(outputs.direct, outputs.run);
}

/// The parent has closed standard input, output and error. Fails if the command finds anything but
/// `/dev/null` at these three descriptors.
#[test]
fn closed_standard_files_become_dev_null() {
    let (server, journal) = (Server::start(), Journal::new());
    let setup = "for one in range(3): os.close(one)";
    let script = format!(
        "for one in 0 1 2; do readlink /proc/$$/fd/$one >> {}; done; exit 5",
        journal.path()
    );
    let mut inner = leasehold(&server.url());
    inner.args(["run", "job", "--", "bash", "-c", &script]);
    let ended = ended(&mut started_by(setup, &inner));
    assert_eq!(ended.code, Some(5), "{ended:?}");
    let lines = journal.lines();
    assert_eq!(lines, ["/dev/null"; 3]);
}

/// Fails if the command's environment differs from the parent's, except for the variables of the
/// lock.
#[test]
fn the_environment_is_inherited() {
    let variables = "os.environb.update({b'EMPTY': b'', b'RAW': b'a\\xff=b', b'LISTEN_PID': b'1'})";
    for pipe in ["", IGNORE_PIPE] {
        let outputs = Outputs::of(&format!("{pipe}\n{variables}"), &["env", "-0"]);
        let [mut direct, mut run] = [&outputs.direct, &outputs.run].map(|text| {
            let mut lines: Vec<&str> = text.split_terminator('\0').collect();
            lines.sort_unstable();
            lines
        });
        assert!(
            direct.contains(&"EMPTY=") && direct.contains(&"LISTEN_PID=1"),
            "{direct:?}"
        );
        let of_the_lock = ["LEASEHOLD_FENCE=", "LEASEHOLD_KEY=job"];
        run.retain(|line| !of_the_lock.iter().any(|name| line.starts_with(name)));
        // `LEASEHOLD_URL` is left out here, because
        // `surroundings::the_url_is_inherited_unless_excluded` tests it.
        for lines in [&mut direct, &mut run] {
            lines.retain(|line| !line.starts_with("LEASEHOLD_URL="));
        }
        assert_eq!(direct, run);
    }
}

/// systemd passes sockets to a service, which uses them only if `LISTEN_PID` is its process id.
/// Fails if this variable, or a similar one of systemd, does not contain the command's process id.
/// Runs with SIGPIPE ignored and not ignored, because `leasehold run` starts the command by
/// different functions in these cases.
#[test]
fn sockets_and_watchdog_of_systemd_are_passed_on() {
    let server = Server::start();
    for pipe in ["", IGNORE_PIPE] {
        let setup = format!(
            "{pipe}
listener = socket.create_server(('127.0.0.1', 0))
os.dup2(listener.fileno(), 3); os.set_inheritable(3, True)
this = str(os.getpid())
os.environ.update(LISTEN_FDS='1', LISTEN_PID=this, LISTEN_PIDFDID='7', WATCHDOG_PID=this)
os.environ.update(SYSTEMD_EXEC_PID=this, NOTIFY_SOCKET='/run/notify', MAINPID=this)"
        );
        let script = "echo $$ $LISTEN_PID $WATCHDOG_PID $SYSTEMD_EXEC_PID; \
                      echo $LISTEN_FDS$LISTEN_PIDFDID $NOTIFY_SOCKET; readlink /proc/$$/fd/3";
        let mut inner = leasehold(&server.url());
        inner.args(["run", "job", "--", "sh", "-c", script]);
        let ended = ended(&mut started_by(&setup, &inner));
        let lines: Vec<&str> = ended.out.lines().collect();
        let ids: Vec<&str> = lines[0].split(' ').collect();
        assert_eq!(ids, [ids[0]; 4], "{ended:?}");
        assert_eq!(lines[1], "1 /run/notify", "{ended:?}");
        assert!(lines[2].starts_with("socket:"), "{ended:?}");
    }
}
