//! Connects to the master that Sentinels name.
//!
//! The store asks the Sentinels each time it needs a connection. It needs one at the start, and
//! after the last connection has ended, was silent, or answered that the server is read-only. In a
//! fail-over, one of these happens to the connection to the old master. So the store follows the
//! fail-over without a subscription to the Sentinels' messages.
//!
//! The store asks all Sentinels at once, and uses the answer with the newest configuration. A
//! Sentinel that is cut off together with an old master still names that master, but with an older
//! configuration epoch.

use std::fmt;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{Pipeline, ProtocolVersion, RedisError, Value, cmd};
use tokio::time::{Instant, timeout_at};

use super::commands::failure;
use super::commands::redirect::Endpoint;
use super::wire::connect::OpenedConnection;
use super::wire::open;
use super::wire::server::Server;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::store::credentials::Provider;
use crate::store::tls::Tls;
use crate::store::url_options::{self, UrlOptions};
use crate::store::{Failure, Retry};

const DEFAULT_PORT: u16 = 26_379;

/// The options that a URL can have after its `?`, besides `password_file`.
const OPTIONS: &[&str] = &["db", "replicas", "sentinel_user", "sentinel_password"];

/// After a majority of the Sentinels has named a master, the store waits this long for the others.
/// One of them may report a newer fail-over.
const GRACE: Duration = Duration::from_millis(50);

/// The Sentinels of one master. `Display` shows no credentials.
#[derive(Clone)]
pub(crate) struct Sentinels {
    nodes: Vec<Server>,
    master: String,
    /// TLS, database and credentials for connections to the master. The host is a placeholder.
    like: Server,
}

/// The master's address according to one Sentinel.
pub(crate) struct Named {
    endpoint: Endpoint,
    /// The configuration epoch, which grows with each fail-over. Zero if the Sentinel does not
    /// report it.
    generation: u64,
    /// Number of replicas that the Sentinel lists, reachable or not. In a fail-over, fewer of them
    /// may be connected to the master.
    replicas: u32,
}

/// The answer of one Sentinel.
pub(crate) enum Answer {
    Named(Named),
    /// The Sentinel does not know the requested master, but knows masters with these names.
    Unknown(Vec<String>),
}

impl Sentinels {
    /// Returns the scheme for a single server, `redis` or `rediss`, and the rest of `base`. Returns
    /// `None` if the scheme of `base` is not for Sentinels.
    pub(super) fn is_named_by(base: &str) -> Option<(&'static str, &str)> {
        let named = |scheme, prefix| Some((scheme, base.strip_prefix(prefix)?));
        named("redis", "redis-sentinel://").or_else(|| named("rediss", "rediss-sentinel://"))
    }

    /// Parses `[user:password@]host[:port],…/master`, which follows the scheme, and the options
    /// after the `?`. With `rediss`, connections to the Sentinels and to the master use TLS.
    pub(super) fn parse(
        scheme: &str,
        base: &str,
        mut query: UrlOptions<'_>,
    ) -> Result<Self, LockError> {
        let (authority, master) = base.split_once('/').unwrap_or((base, ""));
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (credentials, hosts),
            None => ("", authority),
        };
        let master = master.trim_end_matches('/');
        // An `@` means that the password contains a `/`, so the name is a part of it. A final
        // `#insecure` would make the crate `redis` accept any certificate.
        if hosts.is_empty() || master.is_empty() || master.contains(['/', '#', '@']) {
            return Err(misread());
        }
        // `master` is a placeholder: the Sentinels name the actual host.
        let database = query.take("db").unwrap_or_default();
        let like = server(&format!("{scheme}://{credentials}@master/{database}"))?;
        let own = own_credentials(&mut query)?;
        query.finish(&[OPTIONS, &["password_file"]].concat(), &[])?;
        let nodes = hosts.split(',').map(|host| node(scheme, host, &own));
        let nodes: Result<Vec<_>, _> = nodes.collect();
        Ok(Self {
            nodes: nodes?,
            master: master.to_owned(),
            like,
        })
    }

    /// Returns the same Sentinels with these certificates.
    pub(super) fn with_tls(self, tls: &Tls) -> Result<Self, LockError> {
        let nodes = self.nodes.into_iter().map(|node| node.with_tls(tls));
        Ok(Self {
            nodes: nodes.collect::<Result<_, _>>()?,
            like: self.like.with_tls(tls)?,
            ..self
        })
    }

    /// Returns the same Sentinels, with this source of credentials for the master.
    pub(super) fn with_logins(mut self, logins: Option<&Provider>) -> Self {
        self.like = self.like.with_logins(logins);
        self
    }

    /// Returns the settings for connections to the master, with a placeholder as the host.
    pub(super) fn like(&self) -> &Server {
        &self.like
    }

    /// Connects to the master within `limit`. The server that the Sentinels name must itself report
    /// that it is a master.
    pub(super) async fn connect(&self, limit: Duration) -> Result<OpenedConnection, Failure> {
        let started = Instant::now();
        let named = self.find(started + limit / 2).await?;
        let server = self.like.elsewhere(&named.endpoint);
        let left = limit.saturating_sub(started.elapsed());
        let mut opened = server.clone().connect(left).await?;
        match &mut opened.role {
            Some(role) if role.is_master => {
                if !seeded!(ReplicasAwayForgotten) {
                    role.replicas = role.replicas.max(named.replicas);
                }
                Ok(opened)
            }
            Some(_) => Err(Failure::unavailable(
                "READONLY",
                format!(
                    "{server} is a replica, although {self} names it as the master; a fail-over \
                     may be in progress"
                ),
                Retry::Later,
                false,
            )),
            None => Err(Failure::unavailable(
                "NOPERM",
                format!(
                    "{server} does not report whether it is a master: the user needs the \
                     permission +info"
                ),
                Retry::Never,
                false,
            )),
        }
    }

    pub(super) fn readable(&self) -> Option<String> {
        self.nodes.iter().find_map(Server::readable)
    }

    /// Asks all Sentinels at once, and returns the newest answer that arrives in time. Sets its
    /// number of replicas to the largest number in any answer.
    async fn find(&self, mut until: Instant) -> Result<Named, Failure> {
        let limit = until.saturating_duration_since(Instant::now());
        let nodes = self.nodes.iter();
        let mut asked: FuturesUnordered<_> = nodes.map(|node| self.ask(node, limit)).collect();
        let mut newest: Option<Named> = None;
        let (mut answers, mut replicas) = (0, 0);
        let mut failed = Vec::new();
        while let Ok(Some(answer)) = timeout_at(until, asked.next()).await {
            match answer {
                Ok(Answer::Named(named)) => {
                    answers += 1;
                    replicas = named.replicas.max(replicas);
                    if newest
                        .as_ref()
                        .is_none_or(|best| best.generation < named.generation)
                    {
                        newest = Some(named);
                    }
                }
                Ok(Answer::Unknown(known)) => failed.push(self.unknown(&known)),
                Err(failure) => failed.push(failure),
            }
            if answers * 2 > self.nodes.len() {
                until = until.min(Instant::now() + GRACE);
            }
        }
        match newest {
            Some(named) => Ok(Named { replicas, ..named }),
            None => Err(self.none_named(failed)),
        }
    }

    async fn ask(&self, node: &Server, limit: Duration) -> Result<Answer, Failure> {
        let asked = async {
            let access = node.access(limit).await?;
            let failed = |error: RedisError| access.refused(failure::broken(&error));
            let opening = Box::pin(open::open(node, &access, ProtocolVersion::RESP2));
            let mut line = opening.await.map_err(failed)?;
            line.ask(&questions(&self.master)).await.map_err(failed)
        };
        read(asked.await?)
    }

    /// Returns the failure if no Sentinel named a master. Prefers the error in a Sentinel's answer,
    /// because it explains more than a failed connection.
    fn none_named(&self, failed: Vec<Failure>) -> Failure {
        let reported = |failure: &Failure| failure.code() != "io";
        let Some(failure) = failed.into_iter().max_by_key(reported) else {
            let suspicion = self.like.suspicion();
            return self.trouble(&format!(
                "no Sentinel answered in time; check for each that {suspicion}"
            ));
        };
        match &failure.error {
            LockError::Unavailable { source } if source.code() == "io" => {
                self.trouble(&format!("no Sentinel answered: {source}"))
            }
            LockError::Unavailable { source } => {
                let what = match source.code() {
                    "NOAUTH" | "WRONGPASS" | "NOPERM" => {
                        "the Sentinels refused the connection; give their own credentials after \
                         the `?` of the URL, sentinel_user=…&sentinel_password=…, with the \
                         permission +sentinel"
                            .to_owned()
                    }
                    // The TLS handshake failed, so no Sentinel has answered.
                    "tls" => format!("no Sentinel answered: {source}"),
                    _ => format!("the Sentinel answered: {source}"),
                };
                let text = format!("{self}: {what}");
                Failure::unavailable(source.code(), text, failure.retry, false)
            }
            _ => failure,
        }
    }

    fn unknown(&self, known: &[String]) -> Failure {
        let known = match known {
            [] => "no master at all".to_owned(),
            known => known.join(", "),
        };
        self.trouble(&format!(
            "the Sentinels do not know the master `{}`, but {known}; correct the name after the \
             `/`",
            self.master
        ))
    }

    fn trouble(&self, what: &str) -> Failure {
        Failure::unavailable("sentinel", format!("{self}: {what}"), Retry::Later, false)
    }
}

fn questions(master: &str) -> Pipeline {
    let mut questions = Pipeline::new();
    for (question, name) in [
        ("GET-MASTER-ADDR-BY-NAME", Some(master)),
        ("MASTER", Some(master)),
        ("MASTERS", None),
    ] {
        questions.add_command(cmd("SENTINEL").arg(question).arg(name).to_owned());
    }
    questions
}

pub(crate) fn read(answers: Vec<Value>) -> Result<Answer, Failure> {
    let mut answers = answers.into_iter();
    let address = match answers.next() {
        Some(Value::ServerError(error)) => {
            let details = error.details().unwrap_or_default();
            if details.contains("unknown command") {
                return Err(no_sentinel());
            }
            return Err(failure::broken(&error.into()));
        }
        Some(Value::Array(address)) => address,
        Some(Value::Nil) => {
            let masters = answers.nth(1).map(|masters| named_masters(&masters));
            return Ok(Answer::Unknown(masters.unwrap_or_default()));
        }
        _ => return Err(no_sentinel()),
    };
    let [host, port] = &address[..] else {
        return Err(no_sentinel());
    };
    let port = text(port).and_then(|port| port.parse().ok());
    let (Some(host), Some(port)) = (text(host), port) else {
        return Err(no_sentinel());
    };
    let state = answers.next().unwrap_or(Value::Nil);
    let number = |name| field(&state, name)?.parse::<u64>().ok();
    let replicas = number("num-slaves").unwrap_or(0);
    Ok(Answer::Named(Named {
        endpoint: Endpoint { host, port },
        generation: number("config-epoch").unwrap_or(0),
        replicas: u32::try_from(replicas).unwrap_or(u32::MAX),
    }))
}

fn named_masters(masters: &Value) -> Vec<String> {
    let Value::Array(masters) = masters else {
        return Vec::new();
    };
    masters
        .iter()
        .filter_map(|one| field(one, "name"))
        .collect()
}

/// Returns the value of `name` in a list `name, value, name, value, …`.
fn field(list: &Value, name: &str) -> Option<String> {
    let Value::Array(list) = list else {
        return None;
    };
    let mut pairs = list.chunks_exact(2);
    let pair = pairs.find(|pair| text(&pair[0]).as_deref() == Some(name))?;
    text(&pair[1])
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(text) => String::from_utf8(text.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

fn no_sentinel() -> Failure {
    failure::garbage(
        "something that is not from a Sentinel; does the URL name Sentinels? Their port is usually \
         26379",
    )
}

/// Parses `url` as the URL of a single server.
fn server(url: &str) -> Result<Server, LockError> {
    let (base, query) = url_options::split(url);
    Server::parse(base, &query).map_err(|_| misread())
}

/// Returns the credentials for the Sentinels, in the form `user:password@`.
fn own_credentials(query: &mut UrlOptions<'_>) -> Result<String, LockError> {
    match (query.take("sentinel_user"), query.take("sentinel_password")) {
        (user, Some(password)) => Ok(format!("{}:{password}@", user.unwrap_or_default())),
        (None, None) => Ok(String::new()),
        (Some(_), None) => Err(misread()),
    }
}

fn node(scheme: &str, host: &str, credentials: &str) -> Result<Server, LockError> {
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.ends_with(']'));
    let port = if has_port {
        String::new()
    } else {
        format!(":{DEFAULT_PORT}")
    };
    server(&format!("{scheme}://{credentials}{host}{port}/"))
}

fn misread() -> LockError {
    // The parser's error is left out: its text could quote a part of the URL and so the password.
    LockError::config(
        "the lock store's URL is invalid; write \
         redis-sentinel://[user:password@]host[:port],…/master[?db=0], or rediss-sentinel://… for \
         TLS, with special characters percent-encoded; these are the credentials of the data \
         server, those of the Sentinels go after the `?` as sentinel_user=… and \
         sentinel_password=…",
    )
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, node) in self.nodes.iter().enumerate() {
            let address = node.address();
            match number {
                0 => write!(f, "{}-sentinel://{address}", node.scheme())?,
                _ => write!(f, ",{address}")?,
            }
        }
        write!(f, "/{}", self.master)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::url_options;

    fn parse(rest: &str) -> Result<Sentinels, LockError> {
        let (base, query) = url_options::split(rest);
        Sentinels::parse("redis", base, query)
    }

    #[test]
    fn a_url_has_hosts_a_master_and_options() {
        let parsed =
            parse("u:p%40ss@one,two:1,[::1]/shop?db=2&sentinel_user=s&sentinel_password=t%3A")
                .expect("it is right");
        assert_eq!(
            parsed.to_string(),
            "redis-sentinel://one:26379,two:1,[::1]:26379/shop"
        );
        let master = parsed.like.info().redis_settings();
        assert_eq!(master.username(), Some("u"));
        assert_eq!(master.password(), Some("p@ss"));
        assert_eq!(master.db(), 2);
        let sentinel = parsed.nodes[0].info().redis_settings();
        assert_eq!(sentinel.username(), Some("s"));
        assert_eq!(sentinel.password(), Some("t:"));
    }

    #[test]
    fn refusals_show_the_url_format_and_no_password() {
        for rest in [
            "",
            "hunter2@",
            "u:hunter2@one",
            "u:hunter2@one/",
            "u:hunter2@one/a/b",
            "u:hunter2@one:port/shop",
            "u:hunter2@,/shop",
            "u:1/hunter2@one",
            "u:hunter2@one/shop?db=x",
            "one/shop?password=hunter2",
            "one/shop#insecure",
            "one#insecure/shop",
            "one/shop?db=0#insecure",
            "u:hunter2@one/shop?sentinel_password=hunter2#insecure",
            "u:hunter2@one/shop?sentinel_user=s",
        ] {
            let Err(error) = parse(rest) else {
                panic!("{rest} was accepted");
            };
            let text = error.to_string();
            assert!(!text.contains("hunter2"), "{text}");
            assert!(text.contains("sentinel_password"), "{text}");
        }
    }
}
