//! Tests of the dashboard, the rules and the alerts in `docs/monitoring`, with a real Prometheus.
//!
//! `promtool` and `prometheus` are in Debian's package `prometheus`.

mod dashboard;
mod faults;
mod prometheus;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring")
}

fn page(name: &str) -> String {
    let path = folder().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[track_caller]
fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool")
        .args(arguments)
        .current_dir(folder())
        .output();
    let output = output.unwrap_or_else(|error| prometheus::missing("promtool", &error));
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {printed}{errors}");
}

#[test]
fn promtool_accepts_the_rules_and_the_alerts() {
    promtool(&["check", "rules", "rules.yml", "alerts.yml"]);
}

#[test]
fn the_rules_and_the_alerts_pass_their_unit_tests() {
    promtool(&["test", "rules", "tests.yml"]);
}

/// Fails if an alert has no section in the runbook, or if a section is about an alert that does not
/// exist.
#[test]
fn the_runbook_has_a_section_for_each_alert() {
    let alerts = page("alerts.yml");
    let alerts = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let mut alerts: Vec<&str> = alerts.collect();
    let runbook = page("README.md");
    let sections = runbook.lines().filter_map(|line| line.strip_prefix("### "));
    let mut sections: Vec<&str> = sections
        .filter(|name| name.starts_with("Leasehold"))
        .collect();
    alerts.sort_unstable();
    sections.sort_unstable();
    assert_eq!(alerts, sections);
    for alert in alerts {
        let anchor = format!("docs/monitoring/README.md#{}", alert.to_lowercase());
        assert!(page("alerts.yml").contains(&anchor), "{anchor}");
    }
}
