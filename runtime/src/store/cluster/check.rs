//! Checks a cluster and each of its masters.

use futures_util::future::join_all;

use super::address::Address;
use super::nodes::Access;
use super::topology::Topology;
use crate::check_report::CheckReport;
use crate::check_report::Finding;
use crate::error::LockError;
use crate::store::options::Options;
use crate::store::redis::commands::key_names::KeyNames;
use crate::store::redis::commands::redirect::Endpoint;
use crate::store::redis::store::RedisStore;

/// Returns problems that concern the cluster as a whole.
pub(super) fn whole(topology: &Topology) -> Vec<Finding> {
    let mut findings = Vec::new();
    let uncovered = topology.uncovered();
    if uncovered > 0 {
        let text = format!(
            "{uncovered} of the cluster's slots have no node, so locks with keys in them cannot be \
             taken; assign them with CLUSTER ADDSLOTS"
        );
        findings.push(Finding::error("coverage", text));
    }
    if topology.has_unnamed {
        findings.push(Finding::warning(
            "unnamed-node",
            "the cluster announces a node without a host; if clients reach the nodes by name, set \
             cluster-announce-hostname on each, or set cluster-preferred-endpoint-type to ip",
        ));
    }
    findings.extend(match topology.serves {
        Some(true) => None,
        Some(false) => Some(Finding::error(
            "cluster-state",
            "the cluster_state is not ok: a master is gone and no replica has taken over, or some slots have no node; look at CLUSTER INFO",
        )),
        None => Some(Finding::warning(
            "unchecked",
            "the state of the cluster could not be checked; allow the user +cluster|info",
        )),
    });
    findings
}

/// Checks the cluster and each master, over separate connections.
pub(super) async fn check(address: Address, options: &Options) -> Result<CheckReport, LockError> {
    let store = address.to_string();
    let topology = Topology::newest(address.seeds.clone(), options.io_timeout).await;
    let topology = topology.map_err(|failure| failure.error)?;
    let mut findings = whole(&topology);
    let access = Access {
        like: address.like,
        names: KeyNames::of(options),
        options: options.clone(),
    };
    let masters = topology.one_slot_each();
    let looking = masters
        .iter()
        .map(|(endpoint, slot)| look(&access, endpoint, *slot));
    findings.extend(join_all(looking).await.into_iter().flatten());
    Ok(CheckReport::new(store, findings))
}

/// Returns problems of one master.
async fn look(access: &Access, endpoint: &Endpoint, slot: u16) -> Vec<Finding> {
    let (master, names, options) = access.master(endpoint, slot);
    let name = master.to_string();
    match RedisStore::check_as(master, names, &options).await {
        Ok(report) => {
            let findings = report.findings.into_iter();
            findings.map(|found| found.at(&name)).collect()
        }
        Err(error) => {
            let text = format!("{name}: {error}; locks with keys on this node cannot be taken");
            vec![Finding::error("node", text)]
        }
    }
}
