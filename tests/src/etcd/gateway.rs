//! A client of etcd that has nothing in common with the code under test: its JSON API.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::session_server::Node;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A client of one server. Blocking.
#[derive(Debug, Clone, Copy)]
pub struct Gateway {
    address: SocketAddr,
    /// The name and the password of the user that it logs in as for each request.
    user: Option<(&'static str, &'static str)>,
}

impl Gateway {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            user: None,
        }
    }

    /// The same as this user.
    #[must_use]
    pub fn as_user(self, name: &'static str, password: &'static str) -> Self {
        let user = Some((name, password));
        Self { user, ..self }
    }

    /// Whether a write by quorum succeeds.
    pub fn is_healthy(&self) -> bool {
        let put = json!({ "key": encoded("health"), "value": encoded("") });
        self.ask("/v3/kv/put", &put).is_some()
    }

    /// Whether this server leads its cluster.
    pub fn leads(&self) -> bool {
        let Some(status) = self.ask("/v3/maintenance/status", &json!({})) else {
            return false;
        };
        let (leader, member) = (&status["leader"], &status["header"]["member_id"]);
        leader.is_string() && leader == member
    }

    /// The keys that begin with `prefix`, which ends with `/`, in the order of their creation.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn list(&self, prefix: &str) -> Vec<Node> {
        let range = json!({
            "key": encoded(prefix), "range_end": encoded(&end_of(prefix)),
            "sort_order": "ASCEND", "sort_target": "CREATE",
        });
        let found = self.answer("/v3/kv/range", &range);
        let entries = found["kvs"].as_array().into_iter().flatten();
        let node = |entry: &Value| Node {
            path: decoded(entry["key"].as_str().expect("a key")),
            session: number(&entry["lease"]),
        };
        entries.map(node).collect()
    }

    /// How many transactions have changed something.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn revision(&self) -> i64 {
        let range = json!({ "key": encoded("none") });
        number(&self.answer("/v3/kv/range", &range)["header"]["revision"])
    }

    /// How many watches there are.
    ///
    /// # Panics
    ///
    /// When the server does not tell.
    pub fn watches(&self) -> i64 {
        self.metric("etcd_debugging_mvcc_watcher_total")
    }

    /// How many changes are not committed yet.
    ///
    /// # Panics
    ///
    /// When the server does not count them.
    pub fn proposals(&self) -> i64 {
        self.metric("etcd_server_proposals_pending")
    }

    fn metric(&self, name: &str) -> i64 {
        let metrics = self.send("GET /metrics HTTP/1.0\r\nHost: etcd\r\n\r\n");
        let metrics = metrics.expect("the server has metrics");
        let mut lines = metrics.lines();
        let count = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let count = count.and_then(|count| count.parse().ok());
        count.unwrap_or_else(|| panic!("the server has no {name}"))
    }

    /// Puts so many bytes. Returns nothing if the server refuses them.
    pub fn fill(&self, key: &str, bytes: usize) -> Option<()> {
        let value = "x".repeat(bytes);
        let put = json!({ "key": encoded(key), "value": encoded(&value) });
        self.ask("/v3/kv/put", &put).map(drop)
    }

    /// Grants a lease of `seconds`.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn grant(&self, seconds: u64) -> i64 {
        let granted = self.answer("/v3/lease/grant", &json!({ "TTL": seconds.to_string() }));
        number(&granted["ID"])
    }

    /// Revokes a lease; its keys go with it.
    pub fn revoke(&self, lease: i64) {
        // It may have ended by itself.
        self.ask("/v3/lease/revoke", &json!({ "ID": lease.to_string() }));
    }

    /// Puts `key` with a lease.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn put(&self, key: &str, lease: i64) {
        let put =
            json!({ "key": encoded(key), "value": encoded("probe"), "lease": lease.to_string() });
        self.answer("/v3/kv/put", &put);
    }

    /// Puts all of these keys and values, whatever bytes they are.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn put_bytes(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) {
        /// How many puts a server takes at once.
        const MOST: usize = 128;
        for some in pairs.chunks(MOST) {
            let puts = some.iter().map(|(key, value)| {
                let (key, value) = (encoded_bytes(key.as_ref()), encoded_bytes(value.as_ref()));
                json!({ "request_put": { "key": key, "value": value } })
            });
            let txn = json!({ "success": puts.collect::<Vec<_>>() });
            self.answer("/v3/kv/txn", &txn);
        }
    }

    /// Puts `key` with a lease if no key begins with `prefix`, which ends with `/`. Returns whether
    /// it did.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn put_first(&self, prefix: &str, key: &str, lease: i64) -> bool {
        let put =
            json!({ "key": encoded(key), "value": encoded("probe"), "lease": lease.to_string() });
        let txn = json!({
            "compare": [{
                "key": encoded(prefix), "range_end": encoded(&end_of(prefix)),
                "target": "CREATE", "create_revision": "0",
            }],
            "success": [{ "request_put": put }],
        });
        self.answer("/v3/kv/txn", &txn)["succeeded"] == true
    }

    /// Deletes `key`. Returns whether it was there.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn delete(&self, key: &str) -> bool {
        let deleted = self.answer("/v3/kv/deleterange", &json!({ "key": encoded(key) }));
        deleted["deleted"] == "1"
    }

    /// How many whole seconds are left of a lease; 0 if it is over.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn left(&self, lease: i64) -> u64 {
        let left = self.answer("/v3/lease/timetolive", &json!({ "ID": lease.to_string() }));
        u64::try_from(number(&left["TTL"])).unwrap_or(0)
    }

    /// Adds a user with a role, which is there.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn add_user(&self, name: &str, password: &str, role: &str) {
        if role == "root" {
            self.answer("/v3/auth/role/add", &json!({ "name": role }));
        }
        let user = json!({ "name": name, "password": password });
        self.answer("/v3/auth/user/add", &user);
        let grant = json!({ "user": name, "role": role });
        self.answer("/v3/auth/user/grant", &grant);
    }

    /// Adds a role that may read and write what begins with `prefix`, which ends with `/`.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn add_role(&self, name: &str, prefix: &str) {
        self.answer("/v3/auth/role/add", &json!({ "name": name }));
        self.grant_permission(name, prefix, "READWRITE");
    }

    /// Lets a role do more: `READ`, `WRITE` or `READWRITE` what begins with `prefix`.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn grant_permission(&self, role: &str, prefix: &str, kind: &str) {
        let permission = json!({
            "permType": kind, "key": encoded(prefix), "range_end": encoded(&end_of(prefix)),
        });
        let grant = json!({ "name": role, "perm": permission });
        self.answer("/v3/auth/role/grant", &grant);
    }

    /// Takes the rights to what begins with `prefix` from a role.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn revoke_permission(&self, role: &str, prefix: &str) {
        let range =
            json!({ "role": role, "key": encoded(prefix), "range_end": encoded(&end_of(prefix)) });
        self.answer("/v3/auth/role/revoke", &range);
    }

    /// Whether this client may put `key`.
    pub fn may_write(&self, key: &str) -> bool {
        let put = json!({ "key": encoded(key), "value": encoded("probe") });
        self.ask("/v3/kv/put", &put).is_some()
    }

    /// Whether this client may delete `key`.
    pub fn may_delete(&self, key: &str) -> bool {
        self.ask("/v3/kv/deleterange", &json!({ "key": encoded(key) }))
            .is_some()
    }

    /// From now on clients introduce themselves.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn enable_users(&self) {
        self.answer("/v3/auth/enable", &json!({}));
    }

    fn answer(&self, path: &str, request: &Value) -> Value {
        let answer = self.ask(path, request);
        answer.unwrap_or_else(|| panic!("{path} {request} has no answer"))
    }

    fn ask(&self, path: &str, request: &Value) -> Option<Value> {
        let token = match self.user {
            Some((name, password)) => {
                let user = json!({ "name": name, "password": password });
                let answer = self.post("/v3/auth/authenticate", &user, "")?;
                format!("Authorization: {}\r\n", answer["token"].as_str()?)
            }
            None => String::new(),
        };
        self.post(path, request, &token)
    }

    fn post(&self, path: &str, request: &Value, header: &str) -> Option<Value> {
        let body = request.to_string();
        let head = format!(
            "POST {path} HTTP/1.0\r\nHost: etcd\r\nContent-Type: application/json\r\n{header}Content-Length: {}\r\n\r\n",
            body.len()
        );
        serde_json::from_str(&self.send(&(head + &body))?).ok()
    }

    /// The body of the answer to a request, if there is one.
    fn send(&self, request: &str) -> Option<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, LIMIT).ok()?;
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        if !head.lines().next()?.contains(" 200 ") {
            return None;
        }
        Some(body.to_owned())
    }
}

fn number(value: &Value) -> i64 {
    value
        .as_str()
        .map_or(0, |text| text.parse().expect("a number"))
}

/// The first key behind those that begin with `prefix`.
fn end_of(prefix: &str) -> String {
    let (rest, last) = prefix.split_at(prefix.len() - 1);
    format!("{rest}{}", char::from(last.as_bytes()[0] + 1))
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// In base 64, as the API has keys.
fn encoded(text: &str) -> String {
    encoded_bytes(text.as_bytes())
}

fn encoded_bytes(bytes: &[u8]) -> String {
    let mut encoded = String::new();
    for part in bytes.chunks(3) {
        let bits = part
            .iter()
            .fold(0, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - part.len()));
        for at in 0..4 {
            let digit = DIGITS[bits >> (18 - 6 * at) & 63];
            encoded.push(if at <= part.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    encoded
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes().take_while(|byte| *byte != b'=') {
        let digit = DIGITS
            .iter()
            .position(|digit| *digit == byte)
            .expect("base 64");
        bits = bits << 6 | u32::try_from(digit).expect("below 64");
        count += 6;
        if 8 <= count {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 255).expect("a byte"));
        }
    }
    String::from_utf8(bytes).expect("text")
}
