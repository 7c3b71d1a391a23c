//! An etcd client over etcd's JSON API. It shares no code with the code under test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::session_server::Node;
use crate::wait;

/// Time limit for an answer.
const LIMIT: Duration = Duration::from_secs(30);

/// A blocking client of one server.
#[derive(Debug, Clone, Copy)]
pub struct Gateway {
    address: SocketAddr,
    /// Name and password of the user. The client logs in for each request.
    user: Option<(&'static str, &'static str)>,
}

impl Gateway {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            user: None,
        }
    }

    /// Returns the same client, but with this user.
    #[must_use]
    pub fn as_user(self, name: &'static str, password: &'static str) -> Self {
        let user = Some((name, password));
        Self { user, ..self }
    }

    /// True if a write to the quorum succeeds.
    pub fn is_healthy(&self) -> bool {
        let put = json!({ "key": encoded("health"), "value": encoded("") });
        self.ask("/v3/kv/put", &put).is_some()
    }

    /// True if this server leads its cluster.
    pub fn leads(&self) -> bool {
        let Some(status) = self.ask("/v3/maintenance/status", &json!({})) else {
            return false;
        };
        let (leader, member) = (&status["leader"], &status["header"]["member_id"]);
        leader.is_string() && leader == member
    }

    /// Lists the keys with `prefix`, which ends with `/`, in the order of their creation.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
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

    /// Returns the server's revision, which each transaction that changes data increases by one.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn revision(&self) -> i64 {
        let range = json!({ "key": encoded("none") });
        number(&self.answer("/v3/kv/range", &range)["header"]["revision"])
    }

    /// Returns the number of open watches on the server.
    ///
    /// # Panics
    ///
    /// Panics if the server does not report it.
    pub fn watches(&self) -> i64 {
        self.metric("etcd_debugging_mvcc_watcher_total")
    }

    /// Returns the number of proposed but uncommitted changes.
    ///
    /// # Panics
    ///
    /// Panics if the server does not report it.
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

    /// Puts a value of `bytes` bytes. Returns `None` if the server refuses it.
    pub fn fill(&self, key: &str, bytes: usize) -> Option<()> {
        let value = "x".repeat(bytes);
        let put = json!({ "key": encoded(key), "value": encoded(&value) });
        self.ask("/v3/kv/put", &put).map(drop)
    }

    /// Grants a lease of `seconds`.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn grant(&self, seconds: u64) -> i64 {
        let granted = self.answer("/v3/lease/grant", &json!({ "TTL": seconds.to_string() }));
        number(&granted["ID"])
    }

    /// Revokes a lease, which deletes its keys.
    pub fn revoke(&self, lease: i64) {
        // An error is ignored, because the lease may have ended already.
        self.ask("/v3/lease/revoke", &json!({ "ID": lease.to_string() }));
    }

    /// Puts `key` with a lease.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn put(&self, key: &str, lease: i64) {
        let put =
            json!({ "key": encoded(key), "value": encoded("probe"), "lease": lease.to_string() });
        self.answer("/v3/kv/put", &put);
    }

    /// Puts all of these keys and values, which may be any bytes.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn put_bytes(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) {
        /// Largest number of puts that a server accepts in one transaction.
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

    /// Puts `key` with a lease if no key begins with `prefix`, which ends with `/`. Returns `true`
    /// if the key was put.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
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

    /// Deletes `key`. Returns `true` if it existed.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn delete(&self, key: &str) -> bool {
        let deleted = self.answer("/v3/kv/deleterange", &json!({ "key": encoded(key) }));
        deleted["deleted"] == "1"
    }

    /// Returns the remaining whole seconds of a lease, or 0 for an ended lease.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn left(&self, lease: i64) -> u64 {
        let left = self.answer("/v3/lease/timetolive", &json!({ "ID": lease.to_string() }));
        u64::try_from(number(&left["TTL"])).unwrap_or(0)
    }

    /// Adds a user with a role. Creates the role first if it is `root`; any other role must exist.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn add_user(&self, name: &str, password: &str, role: &str) {
        if role == "root" {
            self.answer("/v3/auth/role/add", &json!({ "name": role }));
        }
        let user = json!({ "name": name, "password": password });
        self.answer("/v3/auth/user/add", &user);
        let grant = json!({ "user": name, "role": role });
        self.answer("/v3/auth/user/grant", &grant);
    }

    /// Adds a role that may read and write keys with `prefix`, which ends with `/`.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn add_role(&self, name: &str, prefix: &str) {
        self.answer("/v3/auth/role/add", &json!({ "name": name }));
        self.grant_permission(name, prefix, "READWRITE");
    }

    /// Gives a role a further permission for keys with `prefix`: `READ`, `WRITE` or `READWRITE`.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn grant_permission(&self, role: &str, prefix: &str, kind: &str) {
        let permission = json!({
            "permType": kind, "key": encoded(prefix), "range_end": encoded(&end_of(prefix)),
        });
        let grant = json!({ "name": role, "perm": permission });
        self.answer("/v3/auth/role/grant", &grant);
    }

    /// Revokes a role's permission for keys with `prefix`.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn revoke_permission(&self, role: &str, prefix: &str) {
        let range =
            json!({ "role": role, "key": encoded(prefix), "range_end": encoded(&end_of(prefix)) });
        self.answer("/v3/auth/role/revoke", &range);
    }

    /// Tries to put `key`. Returns `true` if the user of this client has the permission.
    pub fn may_write(&self, key: &str) -> bool {
        let put = json!({ "key": encoded(key), "value": encoded("probe") });
        self.ask("/v3/kv/put", &put).is_some()
    }

    /// Tries to delete `key`. Returns `true` if the user of this client has the permission.
    pub fn may_delete(&self, key: &str) -> bool {
        self.ask("/v3/kv/deleterange", &json!({ "key": encoded(key) }))
            .is_some()
    }

    /// Changes the password of a user.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn set_password(&self, name: &str, password: &str) {
        let user = json!({ "name": name, "password": password });
        // While the cluster elects a new leader, a server refuses the request, so it is repeated.
        wait::until("the password is changed", LIMIT, || {
            self.ask("/v3/auth/user/changepw", &user).is_some()
        });
    }

    /// Switches on authentication: clients must log in after this.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
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

    /// Sends a request. Returns the body of the answer if its status is 200.
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

/// Returns the first key after all keys with `prefix`.
fn end_of(prefix: &str) -> String {
    let (rest, last) = prefix.split_at(prefix.len() - 1);
    format!("{rest}{}", char::from(last.as_bytes()[0] + 1))
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes in base 64, the API's format for keys and values.
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
