//! The requests of a connection. Each function passes its request to the connection before it
//! returns a future, which only waits for the answer. The exception is `make_path`, which makes
//! several requests.

use super::asked::EXISTS;
use super::error::Error;
use super::jute::{In, Out, Stat};
use super::line::{Line, Watch};

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const GET_CHILDREN: i32 = 8;
const SYNC: i32 = 9;
const MULTI: i32 = 14;
const CREATE_WITH_STAT: i32 = 15;
const CREATE_CONTAINER: i32 = 19;

/// Type of the end marker in a multi-request and in its answer. In the answer, also the type of a
/// failed entry.
const NO_ENTRY: i32 = -1;

/// Error of each entry after the failed one, in the same answer.
const AFTER_A_FAILURE: i32 = -2;

/// Version in a request that applies to a znode of any version.
const ANY: i32 = -1;

/// All permissions of a znode.
const ALL: i32 = 31;

/// The lifetime of a znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Persistent = 0,
    Ephemeral = 1,
    EphemeralSequential = 3,
    /// The server removes the znode when it has no children.
    Container = 4,
}

/// The users that may access a znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Users {
    Anyone,
    /// The user that created the znode.
    Creator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Created {
    pub(super) name: String,
    pub(super) stat: Stat,
}

fn creation(path: &str, data: &[u8], kind: Kind, users: Users) -> Out {
    let (scheme, id) = match users {
        Users::Anyone => ("world", "anyone"),
        Users::Creator => ("auth", ""),
    };
    let body = Out::default().text(path).bytes(data);
    body.int(1).int(ALL).text(scheme).text(id).int(kind as i32)
}

impl Line {
    pub(super) fn create(
        &self,
        path: &str,
        data: &[u8],
        kind: Kind,
        users: Users,
    ) -> impl Future<Output = Result<Created, Error>> + Send + use<> {
        let code = if kind == Kind::Container {
            CREATE_CONTAINER
        } else {
            CREATE_WITH_STAT
        };
        let asking = self.ask(code, creation(path, data, kind, users));
        async move {
            let answer = asking.await?;
            let mut answer = In(&answer);
            let path = answer.text()?;
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            Ok(Created {
                name,
                stat: answer.stat()?,
            })
        }
    }

    /// Creates all of the znodes, or none.
    pub(super) fn create_all(
        &self,
        paths: &[String],
        data: &[u8],
        kind: Kind,
        users: Users,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let entry = |body: Out, code: i32, last: bool| body.int(code).flag(last).int(-1);
        let mut body = Out::default();
        for path in paths {
            body = entry(body, CREATE, false).then(&creation(path, data, kind, users));
        }
        let asking = self.ask(MULTI, entry(body, NO_ENTRY, true));
        async move { all_made(&asking.await?) }
    }

    /// Creates the znode, and missing znodes above it.
    pub(super) async fn make_path(&self, path: &str, users: Users) -> Result<(), Error> {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
        for end in ends.chain([path.len()]) {
            let made = self.create(&path[..end], &[], Kind::Persistent, users);
            match made.await {
                Ok(_) | Err(Error::NodeExists) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn delete(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let asking = self.ask(DELETE, Out::default().text(path).int(ANY));
        async move { asking.await.map(drop) }
    }

    /// Writes empty data to the znode.
    pub(super) fn touch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let body = Out::default().text(path).bytes(&[]).int(ANY);
        let asking = self.ask(SET_DATA, body);
        async move { asking.await.map(drop) }
    }

    pub(super) fn stat(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Option<Stat>, Error>> + Send + use<> {
        let asking = self.ask(EXISTS, Out::default().text(path).flag(false));
        async move { found(asking.await) }
    }

    /// Like `stat`, with a watch for the next change.
    pub(super) fn watch_stat(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Option<Stat>, Watch), Error>> + Send + use<> {
        let (asking, watch) = self.watch(EXISTS, path);
        async move { Ok((found(asking.await)?, watch)) }
    }

    pub(super) fn data(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Vec<u8>, Stat), Error>> + Send + use<> {
        let asking = self.ask(GET_DATA, Out::default().text(path).flag(false));
        async move {
            let answer = asking.await?;
            let mut answer = In(&answer);
            Ok((answer.bytes()?.to_vec(), answer.stat()?))
        }
    }

    /// Watches for the next change of an existing znode.
    pub(super) fn watch_data(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Watch, Error>> + Send + use<> {
        let (asking, watch) = self.watch(GET_DATA, path);
        async move { asking.await.map(|_| watch) }
    }

    pub(super) fn children(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send + use<> {
        let asking = self.ask(GET_CHILDREN, Out::default().text(path).flag(false));
        async move { In(&asking.await?).texts() }
    }

    pub(super) fn watch_children(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Vec<String>, Watch), Error>> + Send + use<> {
        let (asking, watch) = self.watch(GET_CHILDREN, path);
        async move { Ok((In(&asking.await?).texts()?, watch)) }
    }

    pub(super) fn sync(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let asking = self.ask(SYNC, Out::default().text(path));
        async move { asking.await.map(drop) }
    }
}

fn found(answer: Result<Vec<u8>, Error>) -> Result<Option<Stat>, Error> {
    match answer {
        Ok(answer) => In(&answer).stat().map(Some),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the answer to a multi-request, which has an entry for each znode. If an entry failed, no
/// znode was created, and this returns the error of that entry.
fn all_made(answer: &[u8]) -> Result<(), Error> {
    let mut answer = In(answer);
    loop {
        let (code, last, _) = (answer.int()?, answer.flag()?, answer.int()?);
        if last {
            return Ok(());
        }
        if code != NO_ENTRY {
            let _path = answer.text()?;
            continue;
        }
        match answer.int()? {
            // Entries before the failed one have no error, and those after it have
            // `AFTER_A_FAILURE`.
            0 | AFTER_A_FAILURE => {}
            code => return Err(Error::of_code(code)),
        }
    }
}
