//! A ZooKeeper client that shares no code with the code under test.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::wire::{
    AUTH, Answer, CREATE, Connection, DELETE, EXISTS, GET_CHILDREN, GET_DATA, Request, SET_ACL,
    SYNC,
};

/// Time limit for repeating a request whose connection fails.
const LIMIT: Duration = Duration::from_secs(30);

/// The server's error codes.
const NO_NODE: i32 = -101;
const NO_AUTH: i32 = -102;
const NODE_EXISTS: i32 = -110;

/// All permissions on a node.
const ALL: i32 = 31;
const PERSISTENT: i32 = 0;
const SEQUENTIAL: i32 = 2;

/// A blocking client of one server. If its connection has failed, it opens another one with a new
/// session.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    connection: Mutex<Option<Connection>>,
}

/// A node of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Znode {
    /// The path of the node.
    pub path: String,
    /// The number (zxid) of the change that created the node.
    pub made: i64,
    /// Number of writes to the node's data since its creation.
    pub writes: i32,
    /// The session whose end deletes the node; 0 for a persistent node.
    pub session: i64,
}

impl Znode {
    /// The last part of the node's path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

impl Client {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            connection: Mutex::new(None),
        }
    }

    /// Lists the nodes below `path` in the order of their creation. The list is empty if `path`
    /// does not exist. It includes all changes that any server has confirmed before this call.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn list(&self, path: &str) -> Vec<Znode> {
        let names = self.names(path).into_iter();
        // A node may vanish after its name was listed.
        let nodes = names.filter_map(|name| self.node(&format!("{path}/{name}")));
        let mut nodes: Vec<_> = nodes.collect();
        nodes.sort_by_key(|node| node.made);
        nodes
    }

    /// Lists the names of the nodes below `path`, in no particular order.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn names(&self, path: &str) -> Vec<String> {
        // The client may be connected to a follower that does not have the leader's latest changes
        // yet. `SYNC` makes the follower get them first.
        self.must(SYNC, || Request::new().text(path));
        let request = || Request::new().text(path).flag(false);
        let Some(mut answer) = self.found(GET_CHILDREN, request) else {
            return Vec::new();
        };
        (0..answer.int()).map(|_| answer.text()).collect()
    }

    /// Reads a node; `None` if it does not exist.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn node(&self, path: &str) -> Option<Znode> {
        let mut stat = self.found(EXISTS, || Request::new().text(path).flag(false))?;
        let made = stat.long();
        let _ = (stat.long(), stat.long(), stat.long());
        let writes = stat.int();
        let _ = (stat.int(), stat.int());
        Some(Znode {
            path: path.to_owned(),
            made,
            writes,
            session: stat.long(),
        })
    }

    /// Reads the data of a node; `None` if it does not exist.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn data(&self, path: &str) -> Option<Vec<u8>> {
        let mut found = self.found(GET_DATA, || Request::new().text(path).flag(false))?;
        Some(found.bytes())
    }

    /// Creates the missing nodes of a path, as persistent nodes.
    ///
    /// # Panics
    ///
    /// Panics if the server does not create a node.
    pub fn make_path(&self, path: &str) {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
        for end in ends.chain([path.len()]) {
            match self.create(&path[..end], PERSISTENT, b"probe") {
                Ok(_) | Err(NODE_EXISTS) => {}
                Err(code) => panic!("{path} cannot be made: {code}"),
            }
        }
    }

    /// Creates a persistent node. The server numbers the nodes of a directory, and appends the next
    /// number to `path`. Returns the path of the node, or `None` if the directory does not exist.
    ///
    /// # Panics
    ///
    /// Panics if the server does not create the node.
    pub fn enqueue(&self, path: &str) -> Option<String> {
        self.enqueue_with(path, b"probe")
    }

    /// Like `enqueue`, but with `data` in the node.
    ///
    /// # Panics
    ///
    /// Panics if the server does not create the node.
    pub fn enqueue_with(&self, path: &str, data: &[u8]) -> Option<String> {
        match self.create(path, SEQUENTIAL, data) {
            Ok(made) => Some(made),
            Err(NO_NODE) => None,
            Err(code) => panic!("{path} cannot be made: {code}"),
        }
    }

    /// Deletes a node. Returns `true` if it existed.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn delete(&self, path: &str) -> bool {
        let any_version = -1;
        let request = || Request::new().text(path).int(any_version);
        self.found(DELETE, request).is_some()
    }

    /// Logs in as this user, and restricts the node to the users that are logged in on this
    /// connection.
    ///
    /// # Panics
    ///
    /// Panics if the server refuses the restriction.
    pub fn restrict(&self, path: &str, user: &str, password: &str) {
        self.introduce(user, password);
        let any_version = -1;
        let users_of_this_connection = || Request::new().text(path).int(1).int(ALL).text("auth");
        self.must(SET_ACL, || {
            users_of_this_connection().text("").int(any_version)
        });
    }

    /// Logs in as this user, in addition to earlier users.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub fn introduce(&self, user: &str, password: &str) {
        let name = format!("{user}:{password}");
        self.must(AUTH, || Request::new().int(0).text("digest").text(&name));
    }

    /// Tries to delete a node. Returns `true` if the server refuses the deletion for lack of
    /// permission.
    pub fn may_not_delete(&self, path: &str) -> bool {
        let any_version = -1;
        let deleted = self.ask(DELETE, || Request::new().text(path).int(any_version));
        deleted.is_err_and(|code| code == NO_AUTH)
    }

    /// Tries to create a node. Returns `true` if the server refuses the creation for lack of
    /// permission.
    pub fn may_not_make(&self, path: &str) -> bool {
        self.create(path, PERSISTENT, b"probe")
            .is_err_and(|code| code == NO_AUTH)
    }

    fn create(&self, path: &str, kind: i32, data: &[u8]) -> Result<String, i32> {
        let request = || {
            let named = Request::new().text(path).bytes(data);
            let open = named.int(1).int(ALL).text("world").text("anyone");
            open.int(kind)
        };
        self.ask(CREATE, request).map(|mut answer| answer.text())
    }

    fn found(&self, code: i32, request: impl Fn() -> Request) -> Option<Answer> {
        match self.ask(code, request) {
            Ok(answer) => Some(answer),
            Err(NO_NODE) => None,
            Err(error) => panic!("request {code} is refused: {error}"),
        }
    }

    fn must(&self, code: i32, request: impl Fn() -> Request) {
        let answer = self.ask(code, request);
        answer.unwrap_or_else(|error| panic!("request {code} is refused: {error}"));
    }

    /// Sends a request. If the connection has failed, opens another connection and repeats the
    /// request.
    fn ask(&self, code: i32, request: impl Fn() -> Request) -> Result<Answer, i32> {
        let mut connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let end = Instant::now() + LIMIT;
        loop {
            let present = match connection.take() {
                Some(present) => Ok(present),
                None => Connection::open(self.address),
            };
            let asked = present.and_then(|mut present| {
                let answer = present.ask(code, request())?;
                *connection = Some(present);
                Ok(answer)
            });
            match asked {
                Ok(answer) => return answer,
                Err(error) if end < Instant::now() => {
                    panic!("{} does not answer: {error}", self.address)
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}
