//! Errors of a server and of a connection.

use crate::base::io_text::io_text;

/// The reason why a request has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error("{0}")]
    Disconnected(String),
    #[error("no answer in time")]
    Timeout,
    #[error("not an answer of ZooKeeper")]
    Garbled,
    #[error("the session has expired")]
    SessionExpired,
    /// The program's source of credentials returned none for a connection. The text is the reason.
    #[error("{0}")]
    NoCredentials(String),
    #[error("authentication failed")]
    AuthFailed,
    #[error("no node")]
    NoNode,
    #[error("node exists")]
    NodeExists,
    #[error("bad version")]
    BadVersion,
    #[error("no permission")]
    NoAuth,
    #[error("quota exceeded")]
    QuotaExceeded,
    #[error("throttled")]
    Throttled,
    #[error("unimplemented")]
    Unimplemented,
    #[error("the server is read-only")]
    NotReadOnly,
    /// The server has refused the request, and would refuse it again.
    #[error("error {0}")]
    Refused(i32),
    /// Any other code. The server may have carried out the request.
    #[error("error {0}")]
    Other(i32),
}

impl Error {
    /// Converts a nonzero error code (`KeeperException.java`).
    pub(super) fn of_code(code: i32) -> Self {
        match code {
            -6 => Self::Unimplemented,
            // The meanings of these codes, in this order: a wrong encoding, wrong arguments, a
            // child of an ephemeral znode, and an invalid access control list.
            -5 | -8 | -108 | -114 => Self::Refused(code),
            -101 => Self::NoNode,
            -102 => Self::NoAuth,
            -103 => Self::BadVersion,
            -110 => Self::NodeExists,
            -112 => Self::SessionExpired,
            -115 | -124 => Self::AuthFailed,
            -119 => Self::NotReadOnly,
            -125 => Self::QuotaExceeded,
            -127 => Self::Throttled,
            code => Self::Other(code),
        }
    }

    pub(super) fn disconnected(reason: &std::io::Error) -> Self {
        Self::Disconnected(io_text(reason))
    }
}
