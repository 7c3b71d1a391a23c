//! Address of the master: a fixed one, or one that Sentinels name.

use std::fmt;
use std::time::Duration;

use super::sentinel::Sentinels;
use super::wire::connect::OpenedConnection;
use super::wire::login::Access;
use super::wire::server::Server;
use crate::error::LockError;
use crate::replicas::Replicas;
use crate::store::Failure;
use crate::store::credentials::Provider;
use crate::store::tls::Tls;
use crate::store::url_options;

/// Address of the master. The store uses it for each new connection. `Display` shows no
/// credentials.
#[derive(Clone)]
pub(crate) enum MasterAddress {
    Server(Server),
    Sentinels(Sentinels),
}

impl MasterAddress {
    /// Returns the master that `url` names, and the URL's `replicas`. No error text contains the
    /// URL.
    pub(crate) fn parse(url: &str) -> Result<(Self, Option<Replicas>), LockError> {
        let (base, mut query) = url_options::split(url);
        let replicas = query.take("replicas").map(str::parse).transpose()?;
        let address = match Sentinels::is_named_by(base) {
            Some((scheme, rest)) => Sentinels::parse(scheme, rest, query)?.into(),
            None => Server::parse(base, &query)?.into(),
        };
        Ok((address, replicas))
    }

    /// Returns the same address with these certificates.
    pub(crate) fn with_tls(self, tls: &Tls) -> Result<Self, LockError> {
        match self {
            Self::Server(server) => server.with_tls(tls).map(Self::Server),
            Self::Sentinels(sentinels) => sentinels.with_tls(tls).map(Self::Sentinels),
        }
    }

    /// Returns the same address, with this source of credentials for the master.
    pub(crate) fn with_logins(self, logins: Option<&Provider>) -> Self {
        match self {
            Self::Server(server) => server.with_logins(logins).into(),
            Self::Sentinels(sentinels) => sentinels.with_logins(logins).into(),
        }
    }

    /// Returns the user and the password with which an open connection logs in again.
    pub(super) async fn access(self, limit: Duration) -> Result<Access, Failure> {
        let server = match &self {
            Self::Server(server) => server,
            Self::Sentinels(sentinels) => sentinels.like(),
        };
        server.access(limit).await
    }

    /// Connects within about `limit`.
    pub(super) async fn connect(self, limit: Duration) -> Result<OpenedConnection, Failure> {
        match self {
            Self::Server(server) => server.connect(limit).await,
            Self::Sentinels(sentinels) => sentinels.connect(limit).await,
        }
    }

    /// True if another server may become the master.
    pub(super) fn fails_over(&self) -> bool {
        matches!(self, Self::Sentinels(_))
    }

    /// Returns the host of the server, or of a Sentinel, if other parties on the network can read
    /// the connection to it.
    pub(super) fn readable(&self) -> Option<String> {
        match self {
            Self::Server(server) => server.readable(),
            Self::Sentinels(sentinels) => sentinels.readable(),
        }
    }
}

impl From<Server> for MasterAddress {
    fn from(server: Server) -> Self {
        Self::Server(server)
    }
}

impl From<Sentinels> for MasterAddress {
    fn from(sentinels: Sentinels) -> Self {
        Self::Sentinels(sentinels)
    }
}

impl fmt::Display for MasterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(server) => server.fmt(f),
            Self::Sentinels(sentinels) => sentinels.fmt(f),
        }
    }
}
