//! `leasehold check`: checks the lock store.

use leasehold::{CheckReport, Severity};
use serde_json::{Value, json};

use crate::args::Store;
use crate::exit;
use crate::failure::Failure;
use crate::output;

/// Prints the report on the lock store. The exit code shows if locks can be taken.
pub(crate) async fn check(store: &Store, as_json: bool) -> Result<u8, Failure> {
    let pool = store.connect().await?;
    let report = pool.check().await?;
    if as_json {
        output::line(&to_json(&report));
    } else {
        output::line(&to_text(&report));
    }
    Ok(if report.is_ready() {
        exit::SUCCESS
    } else {
        exit::NO
    })
}

fn to_text(report: &CheckReport) -> String {
    let ready = if report.is_ready() {
        "ready"
    } else {
        "not ready"
    };
    let mut text = format!("{}: {ready}", report.store);
    for finding in &report.findings {
        text.push_str("\n  ");
        text.push_str(&finding.to_string());
    }
    text
}

fn to_json(report: &CheckReport) -> Value {
    let findings = report.findings.iter().map(|finding| {
        let severity = match finding.severity {
            Severity::Error => "error",
            _ => "warning",
        };
        json!({ "severity": severity, "code": finding.code, "text": finding.text })
    });
    json!({
        "store": report.store,
        "ready": report.is_ready(),
        "findings": findings.collect::<Vec<_>>(),
    })
}
