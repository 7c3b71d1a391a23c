//! A Python interpreter with the package `redis` (redis-py).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the interpreter from `LEASEHOLD_TEST_PYTHON`. Without this variable, returns the
/// interpreter of a virtual environment under `target`. The first call creates this environment if
/// it does not exist yet.
///
/// # Panics
///
/// Panics if the interpreter from the variable is missing or has no package `redis`, or if the
/// environment cannot be created. The message explains what to do.
pub fn interpreter(target: &Path) -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| match std::env::var_os("LEASEHOLD_TEST_PYTHON") {
        Some(python) => {
            let python = PathBuf::from(python);
            assert!(has_redis(&python), "{}", advice(&python));
            python
        }
        None => in_environment(&target.join("test-venv")),
    })
}

fn in_environment(folder: &Path) -> PathBuf {
    let python = folder.join("bin/python");
    if !has_redis(&python) {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder));
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "redis"]));
    }
    assert!(has_redis(&python), "{}", advice(&python));
    python
}

fn has_redis(python: &Path) -> bool {
    Command::new(python)
        .args(["-c", "import redis.lock"])
        .output()
        .is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!(
            "{command:?} failed: {}{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            advice(Path::new("python3"))
        ),
        Err(error) => panic!("{command:?}: {error}\n{}", advice(Path::new("python3"))),
    }
}

fn advice(python: &Path) -> String {
    format!(
        "the interoperation tests need Python 3 with the package `redis`, and {} has it not: install \
         python3 and python3-venv, or set LEASEHOLD_TEST_PYTHON to an interpreter that has it",
        python.display()
    )
}
