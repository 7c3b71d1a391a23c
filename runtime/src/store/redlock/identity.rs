//! A node's report on itself.

use std::time::Duration;

use crate::store::redis::server_info::Info;

/// Identifies the server of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// The server chooses a new one at each start.
    pub(super) run_id: String,
    /// The time since the server's start, in whole seconds.
    pub(super) uptime: Duration,
    /// `master` or `slave`.
    pub(super) role: String,
    pub(super) in_cluster: bool,
}

impl Identity {
    /// Reads `info`. `None` if a field is missing.
    pub(super) fn read(info: &Info) -> Option<Self> {
        Some(Self {
            run_id: info.field("run_id")?.to_owned(),
            uptime: Duration::from_secs(info.number("uptime_in_seconds")?),
            role: info.field("role")?.to_owned(),
            in_cluster: info.field("cluster_enabled") == Some("1"),
        })
    }

    /// Returns the reason if such a node cannot be part of a quorum.
    pub(super) fn unfit(&self) -> Option<String> {
        if self.run_id.is_empty() {
            Some(
                "it does not report which process it is: the user needs the permission +info"
                    .to_owned(),
            )
        } else if self.role != "master" {
            Some(
                "it is a replica; the nodes of `redlock://` are independent masters, so name its master or leave it out"
                    .to_owned(),
            )
        } else if self.in_cluster {
            Some(
                "it is a member of a cluster; the nodes of `redlock://` are independent masters without cluster mode"
                    .to_owned(),
            )
        } else {
            None
        }
    }
}
