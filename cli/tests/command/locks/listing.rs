//! The output of `leasehold ls` and `leasehold show`.

use leasehold_tests::server::Server;
use serde_json::Value;

use super::scene::Scene;
use crate::harness::{Ended, ended, leasehold};

fn asked(scene: &Scene, arguments: &[&str]) -> Ended {
    let ended = ended(leasehold(&scene.server.url()).args(arguments));
    assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
    ended
}

/// Returns the text, without the password, that names the searched namespace and server.
/// `leasehold` must print this text if it finds no lock.
fn place(server: &Server, namespace: &str) -> String {
    format!("in namespace `{namespace}` on redis://{}", server.address())
}

/// Returns the cells in the table's row for a key.
fn row(table: &str, key: &str) -> Vec<String> {
    let mut lines = table.lines();
    let line = lines.find(|line| line.starts_with(&format!("{key} ")));
    let line = line.unwrap_or_else(|| panic!("no {key}: {table}"));
    let cells = line.split("  ").map(str::trim);
    cells
        .filter(|cell| !cell.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Fails if the table of `ls` lacks a held lock, or has a wrong value in a column.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_is_printed_as_a_table() {
    let scene = Scene::begin().await;
    let table = asked(&scene, &["ls"]).out;
    let columns = ["KEY", "KIND", "HOLDER", "HELD FOR", "EXPIRES IN", "WAITING"];
    assert_eq!(row(&table, "KEY"), columns);
    let process = format!("(pid {})", std::process::id());
    let held = row(&table, "order-42");
    assert_eq!((held[1].as_str(), held[5].as_str()), ("exclusive", "1"));
    let holder = &held[2];
    let function = "leasehold_tests::holder::held on ";
    assert!(
        holder.starts_with(function) && holder.ends_with(&process),
        "{table}"
    );
    assert!(held[3].ends_with('s') && held[4].ends_with('s'), "{table}");
    let shares = table.lines().filter(|line| line.starts_with("catalog "));
    assert_eq!(shares.count(), 2, "a row for each holder: {table}");
    assert_eq!(row(&table, "catalog")[1], "shared");
    assert_eq!(row(&table, "partner")[1], "1 of 3 permits");
    let kept = row(&table, "payment:7");
    assert_eq!((kept[1].as_str(), kept[4].as_str()), ("kept", "59 m"));
    let foreign = row(&table, "foreign");
    assert_eq!(
        (foreign[2].as_str(), foreign[4].as_str()),
        ("another client", "-")
    );
    let matching = asked(&scene, &["ls", "p*"]).out;
    assert_eq!(matching.lines().count(), 3, "{matching}");
    let other = asked(&scene, &["ls", "--namespace", "other"]);
    assert_eq!(other.out, "");
    let place = place(&scene.server, "other");
    let none = format!("no held lock matches `*` {place}\n");
    assert_eq!(other.err, none);
}

/// Fails if `ls --json` lacks a lock, prints a lock twice, or prints the token of a holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_is_printed_as_json() {
    let scene = Scene::begin().await;
    let list = asked(&scene, &["ls", "--json"]).out;
    let lines = list.lines().map(serde_json::from_str);
    let locks: Vec<Value> = lines.collect::<Result<_, _>>().expect("each line is JSON");
    let keys: Vec<_> = locks
        .iter()
        .filter_map(|lock| lock["key"].as_str())
        .collect();
    assert_eq!(
        keys,
        ["catalog", "foreign", "order-42", "partner", "payment:7"]
    );
    let store = format!("redis://{}", scene.server.address());
    for lock in &locks {
        assert_eq!(
            (&lock["namespace"], &lock["store"]),
            (&"lock".into(), &store.as_str().into())
        );
    }
    let order = &locks[2];
    let holder = &order["holders"][0];
    assert_eq!(holder["owner"]["function"], "leasehold_tests::holder::held");
    assert_eq!(holder["owner"]["pid"], std::process::id());
    assert!(holder["expires_in_ms"].is_u64(), "{order}");
    let since = holder["since"].as_str().expect("a text");
    assert!(humantime::parse_rfc3339(since).is_ok(), "{since}");
    assert_eq!(order["waiting"].as_array().map(Vec::len), Some(1));
    assert_eq!(locks[1]["holders"][0]["foreign"], true);
    assert_eq!(locks[3]["state"]["permits"]["limit"], 3);
    let token: String = scene
        .server
        .probe()
        .run(redis::cmd("GET").arg("lock:order-42"));
    let token = token.split(':').next().expect("the value begins with it");
    assert_eq!(token.len(), 32, "{token}");
    assert!(!list.contains(token), "{list}");
}

/// Fails if `ls` lacks some of 2,500 locks, or lists one of them twice.
#[test]
fn a_long_list_is_complete() {
    let server = Server::start();
    let mut all = redis::cmd("MSET");
    for number in 0..2_500 {
        all.arg(format!("lock:many:{number:04}"))
            .arg("another client");
    }
    let _: String = server.probe().run(&all);
    let table = ended(leasehold(&server.url()).args(["ls", "many:*"])).out;
    assert_eq!(table.lines().count(), 2_501, "a row each, and one head");
    let list = ended(leasehold(&server.url()).args(["ls", "many:*", "--json"])).out;
    let mut keys: Vec<_> = list.lines().collect();
    assert_eq!(keys.len(), 2_500);
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 2_500);
}

/// Fails if `ls` exits with an error because its output is no longer read, as in `leasehold ls |
/// head -1`.
#[test]
fn ls_succeeds_when_its_reader_stops_reading() {
    let server = Server::start();
    let mut all = redis::cmd("MSET");
    for number in 0..20_000 {
        all.arg(format!("lock:many:{number}")).arg("another client");
    }
    let _: String = server.probe().run(&all);
    let program = env!("CARGO_BIN_EXE_leasehold");
    let script = format!("({program} ls; echo code $? >&2) | head -1");
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &script])
        .env("LEASEHOLD_URL", server.url());
    let ended = ended(&mut shell);
    assert!(ended.out.starts_with("KEY "), "{ended:?}");
    assert_eq!(ended.err, "code 0\n", "{ended:?}");
}

/// Fails if `show` lacks a property of a lock, such as its fence or a waiting process, or prints a
/// wrong value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_lock() {
    let scene = Scene::begin().await;
    let text = asked(&scene, &["show", "order-42"]).out;
    let values: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.split_at_checked(14))
        .collect();
    let value = |name: &str| {
        let mut found = values.iter().filter(|(known, _)| known.trim() == name);
        found
            .next()
            .map_or_else(|| panic!("no {name}: {text}"), |(_, value)| *value)
    };
    assert_eq!((value("key"), value("state")), ("order-42", "exclusive"));
    assert!(
        value("holder").starts_with("leasehold_tests::holder::held on "),
        "{text}"
    );
    assert!(value("for").contains("s, since 20"), "{text}");
    assert!(
        value("waiting").contains(&format!("(pid {})", std::process::id())),
        "{text}"
    );
    assert!(
        value("fence").parse::<u64>().is_ok() && value("expires in").ends_with('s'),
        "{text}"
    );
    let json = asked(&scene, &["show", "order-42", "--json"]).json();
    assert_eq!(json["state"], "exclusive");
    assert_eq!(
        json["fence"]
            .as_u64()
            .map(|fence| fence.to_string())
            .as_deref(),
        Some(value("fence"))
    );
    let free = asked(&scene, &["show", "order-43"]).out;
    let place = place(&scene.server, "lock");
    assert!(
        free.contains(&format!("state         free {place}\n")),
        "{free}"
    );
    let free = asked(&scene, &["show", "order-43", "--json"]).json();
    assert_eq!(
        (&free["state"], &free["namespace"]),
        (&"free".into(), &"lock".into())
    );
    let store = free["store"].as_str().expect("a text");
    assert!(
        place.ends_with(store) && !store.contains("secret"),
        "{store}"
    );
    let kept = asked(&scene, &["show", "payment:7"]).out;
    // The lock is kept for an hour. At most ten minutes have passed, so 50 to 59 minutes are left.
    assert!(kept.contains("kept for      5"), "{kept}");
    assert!(kept.contains(" m\n"), "{kept}");
}

/// Fails if `ls` prints a control character of a key unescaped. Any client of the server can store
/// such a key.
#[test]
fn control_characters_in_a_key_are_escaped() {
    let server = Server::start();
    let key = "lock:\u{1b}[2Jgone";
    let _: String = server.probe().run(redis::cmd("SET").arg(key).arg("x"));
    let table = ended(leasehold(&server.url()).arg("ls"));
    assert_eq!(table.code, Some(0), "{table:?}");
    assert!(!table.out.contains('\u{1b}'), "{table:?}");
}
