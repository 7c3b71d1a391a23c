//! Headless Chromium, driven through `chromedriver` (`WebDriver` over HTTP).

use std::env;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use leasehold_tests::process::Leashed;
use leasehold_tests::scratch::Scratch;
use leasehold_tests::wait;
use serde_json::{Value, json};

use crate::harness::http;

const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe", // so that the browser ends with its driver
];
/// Name of the field in which `WebDriver` returns the id of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// Maximum time until the page shows what a test waits for.
const PATIENCE: Duration = Duration::from_mins(1);

/// Browsers run one after another, because each one occupies a processor while it starts.
static TURN: Mutex<()> = Mutex::new(());

/// A browser with an empty profile and one page. The browser ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Browser {
    _driver: Leashed,
    _profile: Scratch,
    _turn: MutexGuard<'static, ()>,
    address: String,
    session: String,
}

impl Browser {
    /// Opens the page at `url`.
    pub(crate) fn open(url: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let profile = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
        let (driver, address) = start_driver();

        let mut flags = FLAGS.map(str::to_owned).to_vec();
        flags.push("--window-size=1140,950".to_owned());
        flags.push(format!(
            "--user-data-dir={}",
            profile.file("chromium").display()
        ));
        let chromium = program(&["chromium", "chromium-browser"]);
        let options = json!({ "binary": chromium, "args": flags });
        let capabilities = json!({ "alwaysMatch": { "goog:chromeOptions": options } });
        let new = post(
            &address,
            "/session",
            &json!({ "capabilities": capabilities }),
        );
        let session = new["sessionId"].as_str().expect("a session").to_owned();
        let browser = Self {
            _driver: driver,
            _profile: profile,
            _turn: turn,
            address,
            session,
        };
        browser.post("/url", &json!({ "url": url }));
        browser
    }

    /// Clicks the element like a user: it must be visible, and nothing may cover it.
    pub(crate) fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.post(&format!("{element}/click"), &json!({}));
    }

    /// Focuses the element and presses these keys, without a pause.
    pub(crate) fn press(&self, selector: &str, keys: &str) {
        let element = self.element(selector);
        self.post(&format!("{element}/value"), &json!({ "text": keys }));
    }

    /// Returns the element's path, for the URLs of `WebDriver` requests.
    fn element(&self, selector: &str) -> String {
        let by = json!({ "using": "css selector", "value": selector });
        let found = self.post("/element", &by);
        format!("/element/{}", found[ELEMENT].as_str().expect("an element"))
    }

    /// Returns the value of a JavaScript expression.
    pub(crate) fn value(&self, expression: &str) -> Value {
        let script = format!("return {expression}");
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    pub(crate) fn is_true(&self, expression: &str) -> bool {
        self.value(expression) == Value::Bool(true)
    }

    /// Returns the text of an element, or an empty text if there is none.
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({selector:?})?.innerText"));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Returns the texts of all matching elements.
    pub(crate) fn texts(&self, selector: &str) -> Vec<String> {
        let texts =
            format!("Array.from(document.querySelectorAll({selector:?}), one => one.innerText)");
        let texts = self.value(&texts);
        let texts = texts.as_array().expect("a list").iter();
        texts
            .map(|text| text.as_str().unwrap_or_default().to_owned())
            .collect()
    }

    pub(crate) fn wait_for(&self, what: &str, expression: &str) {
        let seen = wait::try_until(PATIENCE, || self.is_true(expression));
        assert!(
            seen.is_some(),
            "{what}: not seen on the page, which shows:\n{}",
            self.text("body")
        );
    }

    /// Returns the window as a PNG.
    pub(crate) fn picture(&self) -> Vec<u8> {
        let path = format!("/session/{}/screenshot", self.session);
        let answer = http::get(&self.address, &path);
        let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
        let text = answer["value"].as_str().expect("a picture");
        BASE64_STANDARD.decode(text).expect("base64")
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        post(
            &self.address,
            &format!("/session/{}{path}", self.session),
            body,
        )
    }
}

impl Drop for Browser {
    /// Ends the browser before its profile is removed.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            http::send(
                &self.address,
                &format!("DELETE /session/{}", self.session),
                "",
            );
        }
    }
}

fn post(address: &str, path: &str, body: &Value) -> Value {
    let answer = http::post(address, path, &body.to_string());
    assert_eq!(answer.status, 200, "{path} {body}: {answer:?}");
    let mut answer: Value = serde_json::from_str(&answer.body).expect("JSON");
    answer["value"].take()
}

/// Starts a driver and returns its address.
///
/// The driver binds a free port of IPv6 first, and ends if another program has that port of IPv4.
/// Then another driver is started.
fn start_driver() -> (Leashed, String) {
    for _ in 0..20 {
        let mut driver = Command::new(program(&["chromedriver"]))
            .arg("--port=0")
            .stdout(Stdio::piped())
            .spawn()
            .expect("chromedriver starts");
        let stdout = driver.stdout.take().expect("stdout is piped");
        let driver = Leashed::new(driver, None);
        match address_of(BufReader::new(stdout)) {
            Ok(address) => return (driver, address),
            Err(printed) => assert!(
                printed.contains("port not available"),
                "chromedriver did not start; it printed {printed:?}"
            ),
        }
    }
    panic!("chromedriver found no port that is free for IPv4 and IPv6")
}

/// Returns the address of the driver, whose output contains the port, or else the whole output.
fn address_of(lines: impl std::io::BufRead) -> Result<String, String> {
    let mut printed = String::new();
    for line in lines.lines() {
        let line = line.expect("stdout is readable");
        if let Some((_, port)) = line.split_once("successfully on port ") {
            return Ok(format!("127.0.0.1:{}", port.trim_end_matches('.')));
        }
        printed.push_str(&line);
    }
    Err(printed)
}

/// Returns the first of these programs in the search path.
fn program(names: &[&str]) -> PathBuf {
    let path = env::var_os("PATH").expect("there is a search path");
    let folders: Vec<_> = env::split_paths(&path).collect();
    let candidates = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = candidates.into_iter().find(|candidate| candidate.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "{} is missing; `scripts/demonstration` installs it",
            names[0]
        )
    })
}
