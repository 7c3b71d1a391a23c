//! Commands that run Java classes with the packages of ZooKeeper and Curator. `scripts/test` puts
//! these packages under `target`.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The name of the packages' folder inside Cargo's target folder.
const NAME: &str = "test-zookeeper";

/// Options for a small virtual machine that starts quickly. Tests start many virtual machines, each
/// with little work.
const SMALL: [&str; 6] = [
    "-Xmx64m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

/// Builds a command that runs a class. `options` are further options of the virtual machine.
///
/// # Panics
///
/// Panics if the packages are missing. The message explains what to do.
pub(super) fn command(options: &[String], class: &str) -> Command {
    let folder = folder();
    let path = env::join_paths([folder.join("lib").join("*"), folder.join("classes")]);
    let mut command = Command::new("java");
    command
        .args(SMALL)
        .args(options)
        .arg("-cp")
        .arg(path.expect("a folder without a colon"))
        .arg(class);
    command
}

/// The folder of the packages: the value of `LEASEHOLD_TEST_ZOOKEEPER`, or the folder `NAME` in any
/// of the folders above this program.
fn folder() -> &'static PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let named = env::var_os("LEASEHOLD_TEST_ZOOKEEPER").map(PathBuf::from);
        let folder = named.or_else(beside_this_program);
        folder
            .filter(|folder| folder.join("complete").exists())
            .unwrap_or_else(|| missing("the packages of ZooKeeper and Curator"))
    })
}

fn beside_this_program() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let folders = program.ancestors().map(|folder| folder.join(NAME));
    folders.into_iter().find(|folder| folder.is_dir())
}

pub(super) fn missing(what: &str) -> ! {
    panic!(
        "the tests of ZooKeeper need {what}: run `scripts/test`, which installs Java and puts the \
         packages into `target/{NAME}`, or name such a folder in LEASEHOLD_TEST_ZOOKEEPER"
    )
}
