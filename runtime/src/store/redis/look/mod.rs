//! Inspects the locks of one server.
//!
//! [`value`] parses the value of a lock's key. [`answer`] parses the answers of the scripts that
//! inspect a lock.

pub(crate) mod answer;
pub(crate) mod value;

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use redis::{Cmd, Pipeline, Script, Value, cmd};
use tokio::time::timeout;

use self::answer::{List, Seen};
use super::commands::key_names::KeyNames;
use super::commands::scripts::LuaScript;
use super::commands::{failure, scripts};
use super::master_address::MasterAddress;
use super::server_info::Info;
use super::wire::connect::OpenedConnection;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::inspect::info::LockInfo;
use crate::inspect::pattern::Pattern;
use crate::key;
use crate::store::options::Options;
use crate::store::source::{Asking, PAGE, Page, Place, Source};
use crate::store::{Failure, Retry};

/// Action of a script on a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Returns the state of the lock.
    Inspect,
    /// Returns the state without the shares and the queue. While a slot moves, their keys may be on
    /// another node.
    InspectAlone,
    TakeAway,
}

/// Inspects the locks of one server, or of the master that Sentinels name.
pub(crate) struct RedisSource {
    master: MasterAddress,
    names: KeyNames,
    namespace: String,
    limit: Duration,
    open: Option<OpenedConnection>,
    /// Time of the server in its last answer to `look_first`, and time of the receipt.
    server_time: (SystemTime, Instant),
}

impl RedisSource {
    pub(crate) fn new(master: MasterAddress, options: &Options) -> Self {
        Self::of(master, KeyNames::of(options), options)
    }

    /// Like `new`, but with the given names of keys and channels.
    pub(crate) fn of(master: MasterAddress, names: KeyNames, options: &Options) -> Self {
        Self {
            master,
            names,
            namespace: options.namespace.clone(),
            limit: options.io_timeout,
            open: None,
            server_time: (SystemTime::UNIX_EPOCH, Instant::now()),
        }
    }

    /// Returns the server's unparsed answer for each of these locks, in their order.
    pub(crate) async fn answers(
        &mut self,
        action: Action,
        keys: &[FullKey],
    ) -> Result<Vec<Value>, Failure> {
        let script: &LuaScript = match action {
            Action::Inspect | Action::InspectAlone => &scripts::INSPECT,
            Action::TakeAway => &scripts::TAKE_AWAY,
        };
        let mut questions = Pipeline::new();
        // The pipeline loads the script each time, because the server may have lost it.
        questions.add_command(script.load());
        for key in keys {
            if self.names.in_cluster() {
                // Needed while the slot moves to this node. At other times, `ASKING` has no effect.
                questions.add_command(cmd("ASKING"));
            }
            questions.add_command(self.command(&script.script, action, key));
        }
        let answers = match action {
            Action::Inspect | Action::InspectAlone => self.ask(&questions).await?,
            Action::TakeAway => self.ask_once(&questions).await?,
        };
        let mut answers = answers.into_iter();
        answers.next();
        let each = 1 + usize::from(self.names.in_cluster());
        let answers: Vec<_> = answers.skip(each - 1).step_by(each).collect();
        if answers.len() == keys.len() {
            Ok(answers)
        } else {
            Err(failure::garbage("fewer answers than requests"))
        }
    }

    /// Returns the server's unparsed answer for one lock.
    pub(crate) async fn answer(&mut self, action: Action, key: &FullKey) -> Result<Value, Failure> {
        if action == Action::TakeAway {
            let looked = self.look_first(key).await?;
            if let Value::ServerError(_) = looked {
                return Ok(looked);
            }
        }
        one(self.answers(action, std::slice::from_ref(key)).await?)
    }

    /// Returns the keys of some locks, starting at the cursor `after`, and the next cursor.
    pub(crate) async fn scan(
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
        let answer = self.ask(&questions).await?.pop();
        let (cursor, found) = answer::scanned(answer)?;
        let names = found.iter().filter_map(|key| key.strip_prefix(&*prefix));
        let names = names.filter(|name| pattern.matches(name) && key::is_lock(name));
        // `SCAN` may return a key twice.
        let names: BTreeSet<&str> = names.collect();
        let keys = names
            .into_iter()
            .map(|name| FullKey::new(&self.namespace, name));
        let next = (cursor != "0").then_some(cursor);
        Ok((keys.collect(), next))
    }

    fn command(&self, script: &Script, action: Action, key: &FullKey) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(script.get_hash()).arg(3).arg(&**key);
        if action == Action::InspectAlone {
            command.arg(&**key).arg(&**key);
        } else {
            command
                .arg(self.names.queue(key))
                .arg(self.names.shares(key));
        }
        command.arg(self.names.channels());
        if action == Action::TakeAway {
            command.arg(self.until());
        }
        command
    }

    /// Returns the answers to `questions`. If a connection from an earlier question fails, connects
    /// again and repeats the questions.
    async fn ask(&mut self, questions: &Pipeline) -> Result<Vec<Value>, Failure> {
        if let Some(opened) = self.open.take()
            && let Ok(answers) = self.ask_over(opened, questions).await
        {
            return Ok(answers);
        }
        let opened = self.master.clone().connect(self.limit).await?;
        self.ask_over(opened, questions).await
    }

    /// Inspects a lock before its forced release, and returns the server's unparsed answer. The
    /// release then goes over a connection that has just answered, and the server refuses it unless
    /// it arrives in time. A request that was held up on its way could take the lock from a later
    /// holder.
    pub(crate) async fn look_first(&mut self, key: &FullKey) -> Result<Value, Failure> {
        let looked = self.answers(Action::Inspect, std::slice::from_ref(key));
        let looked = looked.await.map_err(|failure| Failure {
            executed: false,
            ..failure
        });
        let answer = one(looked?)?;
        if let Ok(seen) = Seen::read(&answer) {
            self.server_time = (seen.now, Instant::now());
        }
        Ok(answer)
    }

    /// Returns the server's time, in ms, until which it accepts a request sent now.
    fn until(&self) -> u64 {
        let (now, answered_at) = self.server_time;
        let until = now + answered_at.elapsed() + self.limit;
        let since = until.duration_since(SystemTime::UNIX_EPOCH);
        u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
    }

    /// Sends `questions` once. If the first run of a repeated question freed a lock, the second run
    /// would take the lock from its next holder.
    async fn ask_once(&mut self, questions: &Pipeline) -> Result<Vec<Value>, Failure> {
        match self.open.take_if(|_| !seeded!(ForcedReleaseRepeated)) {
            Some(opened) => self.ask_over(opened, questions).await,
            // Without an open connection, `ask` repeats nothing.
            None => self.ask(questions).await,
        }
    }

    async fn ask_over(
        &mut self,
        mut opened: OpenedConnection,
        questions: &Pipeline,
    ) -> Result<Vec<Value>, Failure> {
        let mut questions = questions.clone();
        // If the master can change, this connection may lead to a former master, which would show
        // outdated locks. So the same pipeline also queries the server's role.
        let fails_over = self.master.fails_over();
        if fails_over {
            questions.add_command(cmd("INFO").arg("replication").to_owned());
        }
        let answered = timeout(self.limit, opened.ask(&questions)).await;
        let answered = answered
            .unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()));
        let mut answers = answered.map_err(|error| failure::broken(&error))?;
        if fails_over {
            let info = Info::read(answers.pop().as_ref());
            let role = info.as_ref().and_then(Info::role);
            if role.is_none_or(|role| !role.is_master) {
                return Err(Failure::unavailable(
                    "READONLY",
                    "the server is no longer a master; a fail-over may be in progress".to_owned(),
                    Retry::Later,
                    true,
                ));
            }
        }
        self.open = Some(opened);
        Ok(answers)
    }

    async fn do_with(&mut self, action: Action, key: &FullKey) -> Result<LockInfo, Failure> {
        let answer = self.answer(action, key).await?;
        answer::read(key.name(), &answer)
    }

    async fn some(&mut self, pattern: &Pattern, after: &str) -> Result<Page, Failure> {
        let (keys, next) = self.scan(pattern, after).await?;
        let answers = if keys.is_empty() {
            Vec::new()
        } else {
            self.answers(Action::Inspect, &keys).await?
        };
        let list = List::of(&answers);
        let locks = keys.iter().zip(&answers);
        let locks = locks.map(|(key, answer)| list.read(key.name(), answer));
        let mut locks = locks.collect::<Result<Vec<_>, _>>()?;
        locks.retain(LockInfo::is_taken);
        Ok(Page {
            locks,
            next: next.map(Place),
        })
    }
}

impl Source for RedisSource {
    fn look<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo> {
        Box::pin(async move {
            let looked = self.do_with(Action::Inspect, key).await;
            looked.map_err(|failure| failure.error)
        })
    }

    fn page<'a>(&'a mut self, pattern: &'a Pattern, place: Place) -> Asking<'a, Page> {
        Box::pin(async move {
            let page = self.some(pattern, &place.0).await;
            page.map_err(|failure| failure.error)
        })
    }

    fn take_away<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo> {
        Box::pin(async move {
            let taken = self.do_with(Action::TakeAway, key).await;
            taken.map_err(|failure| failure.error)
        })
    }
}

fn one(answers: Vec<Value>) -> Result<Value, Failure> {
    let answer = answers.into_iter().next();
    answer.ok_or_else(|| failure::garbage("no answer"))
}
