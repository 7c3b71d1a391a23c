//! A client of ZooKeeper that has nothing in common with the code under test.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::wire::{
    AUTH, Answer, CREATE, Connection, DELETE, EXISTS, GET_CHILDREN, GET_DATA, Request, SET_ACL,
    SYNC,
};

/// How long a server may take to come back.
const LIMIT: Duration = Duration::from_secs(30);

/// The server's error codes.
const NO_NODE: i32 = -101;
const NO_AUTH: i32 = -102;
const NODE_EXISTS: i32 = -110;

/// What any client may do: all of it.
const ALL: i32 = 31;
const PERSISTENT: i32 = 0;
const SEQUENTIAL: i32 = 2;

/// A client of one server. Blocking. It makes a new session when its own has ended.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    connection: Mutex<Option<Connection>>,
}

/// A node that the server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Znode {
    /// Its path.
    pub path: String,
    /// The number of the change that made it.
    pub made: i64,
    /// How often its data were written since then.
    pub writes: i32,
    /// The session that it ends with; 0 if it stays.
    pub session: i64,
}

impl Znode {
    /// The last part of its path.
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

    /// The nodes below `path` in the order in which they were made; none if there is no such path.
    /// Whatever any server has confirmed before is seen.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn list(&self, path: &str) -> Vec<Znode> {
        let names = self.names(path).into_iter();
        // A node may go meanwhile.
        let nodes = names.filter_map(|name| self.node(&format!("{path}/{name}")));
        let mut nodes: Vec<_> = nodes.collect();
        nodes.sort_by_key(|node| node.made);
        nodes
    }

    /// The names of the nodes below `path`, in no order.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn names(&self, path: &str) -> Vec<String> {
        // A follower may be behind its leader.
        self.must(SYNC, || Request::new().text(path));
        let request = || Request::new().text(path).flag(false);
        let Some(mut answer) = self.found(GET_CHILDREN, request) else {
            return Vec::new();
        };
        (0..answer.int()).map(|_| answer.text()).collect()
    }

    /// One node.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
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

    /// What a node has in it.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn data(&self, path: &str) -> Option<Vec<u8>> {
        let mut found = self.found(GET_DATA, || Request::new().text(path).flag(false))?;
        Some(found.bytes())
    }

    /// Makes a path whose nodes stay, as far as it is not there.
    ///
    /// # Panics
    ///
    /// When the server does not make it.
    pub fn make_path(&self, path: &str) {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
        for end in ends.chain([path.len()]) {
            match self.create(&path[..end], PERSISTENT, b"probe") {
                Ok(_) | Err(NODE_EXISTS) => {}
                Err(code) => panic!("{path} cannot be made: {code}"),
            }
        }
    }

    /// Makes a node that stays, with the next number of its directory behind its name. Returns its
    /// path; `None` when there is no such directory.
    ///
    /// # Panics
    ///
    /// When the server does not make it.
    pub fn enqueue(&self, path: &str) -> Option<String> {
        self.enqueue_with(path, b"probe")
    }

    /// The same with these data in it.
    ///
    /// # Panics
    ///
    /// When the server does not make it.
    pub fn enqueue_with(&self, path: &str, data: &[u8]) -> Option<String> {
        match self.create(path, SEQUENTIAL, data) {
            Ok(made) => Some(made),
            Err(NO_NODE) => None,
            Err(code) => panic!("{path} cannot be made: {code}"),
        }
    }

    /// Deletes a node. Returns whether it was there.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn delete(&self, path: &str) -> bool {
        let any_version = -1;
        let request = || Request::new().text(path).int(any_version);
        self.found(DELETE, request).is_some()
    }

    /// From now on only this user may do anything with the node, and it may do all.
    ///
    /// # Panics
    ///
    /// When the server refuses that.
    pub fn restrict(&self, path: &str, user: &str, password: &str) {
        self.introduce(user, password);
        let any_version = -1;
        let users_of_this_connection = || Request::new().text(path).int(1).int(ALL).text("auth");
        self.must(SET_ACL, || {
            users_of_this_connection().text("").int(any_version)
        });
    }

    /// From now on the client acts as this user, too.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn introduce(&self, user: &str, password: &str) {
        let name = format!("{user}:{password}");
        self.must(AUTH, || Request::new().int(0).text("digest").text(&name));
    }

    /// Whether the server refuses this client the deletion of a node.
    pub fn may_not_delete(&self, path: &str) -> bool {
        let any_version = -1;
        let deleted = self.ask(DELETE, || Request::new().text(path).int(any_version));
        deleted.is_err_and(|code| code == NO_AUTH)
    }

    /// Whether the server refuses this client a new node of this name.
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

    /// Asks, and asks again over a new connection when the present one has ended.
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
