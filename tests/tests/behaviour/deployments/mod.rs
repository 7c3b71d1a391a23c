//! More than one plain server: Sentinels, replicas, clusters, quorums, TLS and users.

mod cluster;
mod redlock;
mod replicas;
mod sentinel;
mod tls_and_acl;
