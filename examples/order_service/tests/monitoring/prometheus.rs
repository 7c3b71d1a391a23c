//! A Prometheus for one test.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_tests::process::Leashed;
use leasehold_tests::wait;
use serde_json::Value;

/// Interval at which Prometheus reads the metrics of the services and evaluates the rules.
const INTERVAL: &str = "250ms";

/// Time span that the queries of the rules, alerts and panels look back over in the test. In
/// production, these windows last minutes.
pub(crate) const WINDOW: &str = "6s";

/// Time for which the condition of an alert must be true before the alert fires.
const FOR: &str = "500ms";

const START: Duration = Duration::from_secs(30);

/// A running Prometheus. It is killed when this value is dropped, or when the process of the test
/// dies.
#[derive(Debug)]
pub(crate) struct Prometheus {
    process: Leashed,
    address: String,
    log: PathBuf,
}

/// One sample of a query's answer.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) labels: Value,
    pub(crate) value: f64,
}

pub(crate) fn missing(program: &str, error: &std::io::Error) -> ! {
    panic!(
        "the tests of docs/monitoring need the program {program} ({error}): run `scripts/check`, which installs it, or \
         `apt-get install prometheus`"
    )
}

impl Prometheus {
    /// Starts a Prometheus that reads these services. It has the rules and alerts of
    /// `docs/monitoring`, with short windows.
    pub(crate) fn start(folder: &Path, services: &[&str]) -> Self {
        for name in ["rules.yml", "alerts.yml"] {
            let rules = shortened(&super::page(name));
            fs::write(folder.join(name), rules).expect("the folder is writable");
        }
        fs::write(folder.join("prometheus.yml"), configuration(services))
            .expect("the folder is writable");
        for _ in 0..5 {
            if let Some(started) = Self::try_start(folder) {
                return started;
            }
        }
        let log = fs::read_to_string(folder.join("prometheus.log")).unwrap_or_default();
        panic!("prometheus does not start:\n{log}");
    }

    /// Starts a Prometheus. Returns `None` if it ends at once, because another process took the
    /// port first.
    fn try_start(folder: &Path) -> Option<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = free.local_addr().expect("it is bound").to_string();
        drop(free);
        let log = folder.join("prometheus.log");
        let output = File::create(&log).expect("the folder is writable");
        let child = Command::new("prometheus")
            .arg(format!(
                "--config.file={}",
                folder.join("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file can be shared"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| missing("prometheus", &error));
        let mut prometheus = Self {
            process: Leashed::new(child, None),
            address,
            log,
        };
        let mut ended = false;
        wait::until("prometheus is ready", START, || {
            ended = prometheus.process.exited().is_some();
            ended
                || prometheus
                    .get("/-/ready")
                    .is_some_and(|answer| answer.starts_with("HTTP/1.0 200"))
        });
        (!ended).then_some(prometheus)
    }

    /// Returns the current samples of a query, without NaN. A quantile without data is NaN.
    pub(crate) fn query(&self, query: &str) -> Vec<Sample> {
        let answer = self.ask(&format!("/api/v1/query?query={}", encoded(query)));
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let result = answer["data"]["result"].as_array();
        let samples = result.expect("a vector").iter().map(|sample| Sample {
            labels: sample["metric"].clone(),
            value: sample["value"][1]
                .as_str()
                .expect("a number")
                .parse()
                .expect("a number"),
        });
        samples.filter(|sample| !sample.value.is_nan()).collect()
    }

    /// Returns the alerts that fire now, with their labels.
    pub(crate) fn firing(&self) -> Vec<Value> {
        let answer = self.ask("/api/v1/alerts");
        let alerts = answer["data"]["alerts"].as_array().expect("a list");
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing.map(|alert| alert["labels"].clone()).collect()
    }

    fn ask(&self, path: &str) -> Value {
        let answer = self.get(path).expect("prometheus answers");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {answer}"))
    }

    /// Sends a GET request. Returns `None` if Prometheus does not listen yet. Uses HTTP 1.0, so
    /// that the answer is not chunked.
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream
            .set_read_timeout(Some(START))
            .expect("it is not zero");
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("prometheus printed:\n{log}");
        }
    }
}

fn configuration(services: &[&str]) -> String {
    format!(
        "global:\n  scrape_interval: {INTERVAL}\n  scrape_timeout: {INTERVAL}\n  evaluation_interval: {INTERVAL}\n\
         rule_files: [rules.yml, alerts.yml]\n\
         scrape_configs:\n  - job_name: order_service\n    static_configs:\n      - targets: {services:?}\n"
    )
}

/// Shortens the windows of the rules for a test.
fn shortened(rules: &str) -> String {
    let mut short = String::new();
    for line in rules.lines() {
        let line = line.replace("[5m]", &format!("[{WINDOW}]"));
        let line = match line.trim_start().strip_prefix("for: ") {
            Some(long) => line.replace(long, FOR),
            None => line,
        };
        assert!(
            !line.contains("m]"),
            "a window that is not shortened: {line}"
        );
        short.push_str(&line);
        short.push('\n');
    }
    short
}

/// Percent-encodes a query.
fn encoded(query: &str) -> String {
    let mut encoded = String::new();
    for byte in query.bytes() {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
