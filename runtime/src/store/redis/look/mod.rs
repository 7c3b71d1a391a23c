//! Looks at the locks of one server.
//!
//! [`value`] knows what is written in a lock's key, and [`answer`] reads what the script says that
//! looks at it.

pub(crate) mod answer;
pub(crate) mod value;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Pipeline, Script, Value, cmd};
use tokio::time::timeout;

use super::commands::key_names::KeyNames;
use super::commands::{failure, scripts};
use super::master_address::MasterAddress;
use super::server_info::Info;
use super::wire::connect::OpenedConnection;
use crate::base::full_key::FullKey;
use crate::inspect::info::LockInfo;
use crate::inspect::pattern::Pattern;
use crate::key;
use crate::store::options::Options;
use crate::store::source::{Asking, PAGE, Page, Place, Source};
use crate::store::Failure;

static INSPECT: LazyLock<Sent> = LazyLock::new(|| Sent::new(scripts::INSPECT_CODE));
static TAKE_AWAY: LazyLock<Sent> = LazyLock::new(|| Sent::new(scripts::TAKE_AWAY_CODE));

/// A script that goes along with each question, so that it is there whatever the server has
/// forgotten.
struct Sent {
    code: Cow<'static, str>,
    script: Script,
}

impl Sent {
    fn new(code: &'static str) -> Self {
        let code = scripts::code(code);
        Self {
            script: Script::new(&code),
            code,
        }
    }
}

/// Looks at the locks of one server, or of the master that Sentinels name.
pub(crate) struct RedisSource {
    master: MasterAddress,
    names: KeyNames,
    namespace: String,
    limit: Duration,
    open: Option<OpenedConnection>,
}

impl RedisSource {
    pub(crate) fn new(master: MasterAddress, options: &Options) -> Self {
        Self::of(master, KeyNames::of(options), options)
    }

    /// The same, with names of its own for the auxiliary keys.
    pub(crate) fn of(master: MasterAddress, names: KeyNames, options: &Options) -> Self {
        Self {
            master,
            names,
            namespace: options.namespace.clone(),
            limit: options.io_timeout,
            open: None,
        }
    }

    /// What there is of one lock.
    pub(crate) async fn look_at(&mut self, key: &FullKey) -> Result<LockInfo, Failure> {
        let answers = self.call(&INSPECT, &[key]).await?;
        one(answers, key)
    }

    /// Takes a lock away.
    pub(crate) async fn take(&mut self, key: &FullKey) -> Result<LockInfo, Failure> {
        let answers = self.call(&TAKE_AWAY, &[key]).await?;
        one(answers, key)
    }

    /// Some of the locks, from the cursor `after` on, and the next cursor.
    pub(crate) async fn some(
        &mut self,
        pattern: &Pattern,
        after: &str,
    ) -> Result<(Vec<LockInfo>, Option<String>), Failure> {
        let (keys, next) = self.scan(pattern, after).await?;
        let mut locks = Vec::new();
        if !keys.is_empty() {
            let asked: Vec<&FullKey> = keys.iter().collect();
            let answers = self.call(&INSPECT, &asked).await?;
            for (key, answer) in keys.iter().zip(answers) {
                locks.push(answer::read(key.name(), answer)?);
            }
        }
        locks.retain(LockInfo::is_taken);
        Ok((locks, next))
    }

    /// The keys of locks, from the cursor `after` on, and the next cursor.
    async fn scan(
        &mut self,
        pattern: &Pattern,
        after: &str,
    ) -> Result<(Vec<FullKey>, Option<String>), Failure> {
        let prefix = FullKey::new(&self.namespace, "");
        let mut scan = cmd("SCAN");
        scan.arg(if after.is_empty() { "0" } else { after })
            .arg("MATCH")
            .arg(pattern.for_redis(&prefix))
            .arg("COUNT")
            .arg(PAGE);
        let mut questions = Pipeline::new();
        questions.add_command(scan);
        let mut answers = self.ask(&questions).await?;
        let (cursor, found) = scanned(answers.pop())?;
        let names = found.iter().filter_map(|key| key.strip_prefix(&*prefix));
        let names = names.filter(|name| pattern.matches(name) && key::is_lock(name));
        // A server may name a key twice.
        let names: BTreeSet<&str> = names.collect();
        let keys = names
            .into_iter()
            .map(|name| FullKey::new(&self.namespace, name));
        let next = (cursor != "0").then_some(cursor);
        Ok((keys.collect(), next))
    }

    /// Calls a script for each of these locks.
    async fn call(&mut self, sent: &Sent, keys: &[&FullKey]) -> Result<Vec<Value>, Failure> {
        let mut questions = Pipeline::new();
        questions.add_command(cmd("SCRIPT").arg("LOAD").arg(&*sent.code).to_owned());
        for key in keys {
            questions.add_command(self.command(&sent.script, key));
        }
        let mut answers = self.ask(&questions).await?;
        answers.drain(..1.min(answers.len()));
        Ok(answers)
    }

    fn command(&self, script: &Script, key: &FullKey) -> Cmd {
        let mut command = cmd("EVALSHA");
        command
            .arg(script.get_hash())
            .arg(3)
            .arg(&**key)
            .arg(self.names.queue(key))
            .arg(self.names.shares(key))
            .arg(self.names.channels());
        command
    }

    /// The answers to `questions`. A connection that has ended since the last question is replaced.
    /// To ask twice does no harm: a lock is taken away only once.
    async fn ask(&mut self, questions: &Pipeline) -> Result<Vec<Value>, Failure> {
        if let Some(opened) = self.open.take()
            && let Ok(answers) = self.ask_over(opened, questions).await
        {
            return Ok(answers);
        }
        let opened = self.master.clone().connect(self.limit).await?;
        self.ask_over(opened, questions).await
    }

    async fn ask_over(
        &mut self,
        mut opened: OpenedConnection,
        questions: &Pipeline,
    ) -> Result<Vec<Value>, Failure> {
        let mut questions = questions.clone();
        // A server that another one has replaced as the master would answer with old locks.
        let asks_role = self.master.fails_over();
        if asks_role {
            questions.add_command(cmd("INFO").arg("replication").to_owned());
        }
        let answered = timeout(self.limit, opened.ask(&questions)).await;
        let answered = answered
            .unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()));
        let mut answers = answered.map_err(|error| failure::broken(&error))?;
        if asks_role {
            let info = Info::read(answers.pop().as_ref());
            let role = info.as_ref().and_then(Info::role);
            if role.is_none_or(|role| !role.is_master) {
                return Err(failure::garbage("the answer of a server that is no master any more"));
            }
        }
        self.open = Some(opened);
        Ok(answers)
    }
}

impl Source for RedisSource {
    fn look<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo> {
        Box::pin(async move { self.look_at(key).await.map_err(|failure| failure.error) })
    }

    fn page<'a>(&'a mut self, pattern: &'a Pattern, place: Place) -> Asking<'a, Page> {
        Box::pin(async move {
            let (locks, next) = self
                .some(pattern, &place.after)
                .await
                .map_err(|failure| failure.error)?;
            let next = next.map(|after| Place { node: 0, after });
            Ok(Page { locks, next })
        })
    }

    fn take_away<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo> {
        Box::pin(async move { self.take(key).await.map_err(|failure| failure.error) })
    }
}

fn one(mut answers: Vec<Value>, key: &FullKey) -> Result<LockInfo, Failure> {
    let answer = answers.pop();
    let answer = answer.ok_or_else(|| failure::garbage("fewer answers than questions"))?;
    answer::read(key.name(), answer)
}

/// The cursor and the keys in an answer to `SCAN`. Keys that are no text are no locks.
fn scanned(answer: Option<Value>) -> Result<(String, Vec<String>), Failure> {
    let shapeless = || failure::garbage("an answer of another shape to SCAN");
    match answer {
        Some(Value::ServerError(error)) => {
            Err(failure::server_error(error.code(), error.details()))
        }
        Some(answer) => redis::from_redis_value::<(String, Vec<Vec<u8>>)>(answer)
            .map(|(cursor, keys)| {
                let keys = keys.into_iter().filter_map(|key| String::from_utf8(key).ok());
                (cursor, keys.collect())
            })
            .map_err(|_| shapeless()),
        None => Err(shapeless()),
    }
}
