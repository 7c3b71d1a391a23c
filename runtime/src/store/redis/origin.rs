//! Where a connection comes from: a server that is always the same, or the one that Sentinels name.

use std::fmt;
use std::time::Duration;

use super::sentinel::Sentinels;
use super::server::{Link, Server};
use crate::store::Failure;

/// What is asked for a connection whenever one is wanted. Shows without credentials.
#[derive(Clone)]
pub(crate) enum Origin {
    Server(Server),
    Sentinels(Sentinels),
}

impl Origin {
    /// A connection within about `limit`.
    pub(super) async fn connect(self, limit: Duration) -> Result<Link, Failure> {
        match self {
            Self::Server(server) => server.connect(limit).await,
            Self::Sentinels(sentinels) => sentinels.connect(limit).await,
        }
    }
}

impl From<Server> for Origin {
    fn from(server: Server) -> Self {
        Self::Server(server)
    }
}

impl From<Sentinels> for Origin {
    fn from(sentinels: Sentinels) -> Self {
        Self::Sentinels(sentinels)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(server) => server.fmt(f),
            Self::Sentinels(sentinels) => sentinels.fmt(f),
        }
    }
}
