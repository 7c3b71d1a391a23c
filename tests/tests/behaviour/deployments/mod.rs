//! More than one plain server: Sentinels, replicas, clusters, quorums, TLS and users. And
//! databases.

mod cluster;
mod etcd;
mod postgres;
mod redlock;
mod replicas;
mod sentinel;
mod session_servers;
mod tls_and_acl;
mod zookeeper;
