//! The harness of leasehold's behaviour tests: real servers, real processes, a network with faults,
//! and an oracle that detects overlapping holders.
//!
//! | module | contents |
//! |---|---|
//! | [`server`] | a separate `redis-server` process for a test |
//! | [`server_clock`] | a clock for such a process, set by the test |
//! | [`postgres`] | a PostgreSQL server, a database for each test, and a probe |
//! | [`etcd`] | an etcd server, a part of it for each test, a probe, and a cluster |
//! | [`zookeeper`] | a ZooKeeper server, a chroot for each test, a probe, an ensemble, Curator |
//! | [`session_server`] | the common interface of etcd and ZooKeeper servers |
//! | [`quorum`] | several independent servers |
//! | [`sentinel`] | a master, its replicas and the Sentinels that watch them |
//! | [`cluster`] | masters and replicas of a Redis Cluster, moving slots, and isolated nodes |
//! | [`brand`] | servers from other makers and of other versions |
//! | [`tls`] | a server with TLS |
//! | [`certificates`] | an authority, and certificates for both ends |
//! | [`stores`] | runs one test body on every lock store |
//! | [`proxy`] | a network that delays or swallows replies, loses them, and cuts connections |
//! | [`pipe`] | a network with faults for any protocol, without knowledge of its messages |
//! | [`worker`] | a process that runs annotated functions, and that tests stop and kill |
//! | [`earlier_version`] | a process of version 0.1.0, for tests with the present version |
//! | [`transfer`] | money moved between accounts, for locks on two keys |
//! | [`probe`] | looks at a key without the pool under test |
//! | [`load`] | callers that contend while a test causes faults |
//! | [`recorder`] | detects two bodies in one lock, within one process |
//! | [`oracle`] | checks every promise from the history of a run with many processes |
//! | [`chaos`] | the fault harness: each requirement, the seeded bugs, the full run |
//! | [`blocked`] | a runtime with all workers blocked |
//! | [`lateness`] | the delay with which this machine wakes threads, for bounds on delays |
//! | [`room`] | limits the number of tests that run at the same time |
//! | [`holder`] | a lock that is held until the test releases it |
//! | [`renewal`] | a lock whose renewal becomes due during an outage |
//! | [`scratch`] | an empty directory for a test |
//! | [`variant`] | the name of an error's variant |
//! | [`rerun`] | runs a test of the present program again, with a seeded bug |
//! | [`postgres::mutants`] | runs a test again, with a bug in PostgreSQL's functions |
//! | [`python`] | an interpreter with redis-py |
//! | [`clock`], [`wait`], [`random`], [`process`] | time, bounded waiting, seeds, signals |

/// Compiles the examples in the attribute's documentation. They are not doctests of the crate
/// `macros`, because that crate's tests would need a second build of leasehold.
#[cfg(doctest)]
#[doc = include_str!("../../macros/src/attribute.md")]
mod distributed_lock {}

/// Compiles the example in the README of the published package.
#[cfg(doctest)]
#[doc = include_str!("../../runtime/README.md")]
mod package {}

/// Compiles the example programs in the documentation of each framework.
#[cfg(doctest)]
#[doc = include_str!("../../docs/frameworks.md")]
mod frameworks {}

/// Compiles the examples of the page on `replay`, which need the feature `replay` and axum.
#[cfg(doctest)]
#[doc = include_str!("../../docs/replay.md")]
mod replay {}

pub mod blocked;
pub mod brand;
pub mod certificates;
#[cfg(feature = "harness")]
pub mod chaos;
pub mod clock;
pub mod cluster;
pub mod earlier_version;
pub mod etcd;
mod folder;
pub mod holder;
pub mod lateness;
pub mod load;
pub mod oracle;
pub mod pipe;
pub mod postgres;
pub mod probe;
pub mod process;
pub mod proxy;
pub mod python;
pub mod quorum;
pub mod random;
pub mod recorder;
pub mod redis_probe;
pub mod renewal;
pub mod rerun;
pub mod room;
pub mod scratch;
pub mod sentinel;
pub mod server;
pub mod server_clock;
pub mod session_server;
mod sql_mutants;
pub mod stores;
pub mod tls;
pub mod transfer;
pub mod variant;
pub mod wait;
pub mod worker;
pub mod zookeeper;
