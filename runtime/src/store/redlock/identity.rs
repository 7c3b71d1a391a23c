//! The identity of a node's server, from its `INFO`.

use std::time::Duration;

use crate::store::redis::server_info::Info;

/// Identifies a node's server, and shows whether it can be part of a quorum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// Random text that the server chooses at each start.
    pub(super) run_id: String,
    /// Time since the start of the server, in whole seconds.
    pub(super) uptime: Duration,
    /// `master` or `slave`.
    pub(super) role: String,
    pub(super) in_cluster: bool,
}

impl Identity {
    /// Reads the fields of `info`. Returns `None` if one is missing.
    pub(super) fn read(info: &Info) -> Option<Self> {
        Some(Self {
            run_id: info.field("run_id")?.to_owned(),
            uptime: Duration::from_secs(info.number("uptime_in_seconds")?),
            role: info.field("role")?.to_owned(),
            in_cluster: info.field("cluster_enabled") == Some("1"),
        })
    }

    /// Returns the reason why such a server cannot be part of a quorum, if there is one.
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
