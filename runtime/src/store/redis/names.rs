//! What this process and its companions of a lock are called on the server.

use std::fmt;

use crate::key::RESERVED;
use crate::token::{Nonce, Token};

/// The names of one pool.
pub(super) struct Names {
    /// Empty, or the namespace with the colon behind it.
    prefix: String,
    process: String,
    fences: String,
    /// What the keys of queues, those of shares and the channels begin with.
    queues: String,
    shares: String,
    channels: String,
}

impl Names {
    pub(super) fn new(namespace: &str) -> Self {
        let prefix = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}:")
        };
        let process = Token::random(Nonce::new()).hex();
        Self {
            fences: format!("{prefix}{RESERVED}:fence"),
            queues: format!("{prefix}{RESERVED}:queue:"),
            shares: format!("{prefix}{RESERVED}:shares:"),
            channels: format!("{prefix}{RESERVED}:turn:"),
            prefix,
            process,
        }
    }

    /// The process, as queues know it. Whoever knows it can take a key that was handed to it, so it does not show.
    pub(super) fn process(&self) -> &str {
        &self.process
    }

    /// The key of the fence counter: one for the namespace, however many locks there are.
    pub(super) fn fences(&self) -> &str {
        &self.fences
    }

    /// The key of the queue for `key`.
    pub(super) fn queue(&self, key: &str) -> String {
        [self.queues.as_str(), key].concat()
    }

    /// The key of the shares of `key`.
    pub(super) fn shares(&self, key: &str) -> String {
        [self.shares.as_str(), key].concat()
    }

    /// What the channels of all processes begin with; the process follows.
    pub(super) fn channels(&self) -> &str {
        &self.channels
    }

    /// Where this process is told that its turn has come.
    pub(super) fn channel(&self) -> String {
        [self.channels.as_str(), &self.process].concat()
    }

    /// A key to try the scripts on.
    pub(super) fn trial(&self, token: Token) -> String {
        format!("{}{RESERVED}:check:{}", self.prefix, token.hex())
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
