//! A description of the machine, without anything that identifies it.

use std::process::Command;

/// Returns the cores, the processor, the operating system, and the versions of redis-server and
/// rustc.
pub(crate) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processor =
        line("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let system =
        line("/etc/os-release", "PRETTY_NAME").unwrap_or_else(|| std::env::consts::OS.to_owned());
    let mut parts = vec![format!("{cores} cores of {processor}"), system];
    parts.extend(printed("redis-server", &["--version"]).map(|text| {
        let version = text
            .split_ascii_whitespace()
            .find_map(|word| word.strip_prefix("v="));
        format!("redis-server {}", version.unwrap_or("of unknown version"))
    }));
    parts.extend(printed("rustc", &["--version"]).map(|text| {
        text.split_ascii_whitespace()
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
    }));
    parts.join(", ")
}

/// Finds the first line of a file that begins with `name`, such as `name: value` or `name=value`.
/// Returns the value.
fn line(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let value = line.trim_start().trim_start_matches([':', '=']);
    Some(value.trim().trim_matches('"').to_owned())
}

fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
