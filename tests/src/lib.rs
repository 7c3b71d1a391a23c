//! The harness of leasehold's behaviour tests: real servers, real processes, a network with faults,
//! and an oracle that says whether two holders overlapped.
//!
//! | module | noun |
//! |---|---|
//! | [`server`] | a `redis-server` process of the test's own |
//! | [`server_clock`] | the clock of such a process, which a test sets |
//! | [`postgres`] | a PostgreSQL server, a database for each test, and a look into it |
//! | [`etcd`] | an etcd server, a part of it for each test, a look into it, and a cluster |
//! | [`zookeeper`] | a ZooKeeper server, a chroot for each test, a look into it, an ensemble, and Curator |
//! | [`session_server`] | what tests ask of a server of etcd and of one of ZooKeeper alike |
//! | [`quorum`] | several independent servers |
//! | [`sentinel`] | a master, its replicas and the Sentinels that watch them |
//! | [`cluster`] | masters and replicas of a Redis Cluster, moving slots, and isolated nodes |
//! | [`brand`] | servers of other makers and versions |
//! | [`tls`] | a server with TLS |
//! | [`certificates`] | an authority, and certificates for both ends |
//! | [`stores`] | each lock store in turn, for one test body |
//! | [`proxy`] | a network that delays, swallows, cuts, and loses replies |
//! | [`pipe`] | the same for any protocol, without its messages |
//! | [`worker`] | a process in which annotated functions run, to be stopped and killed |
//! | [`earlier_version`] | a process of version 0.1.0, which meets the present version |
//! | [`transfer`] | money that is moved between accounts, for locks on two keys |
//! | [`probe`] | a look at a key, apart from the code under test |
//! | [`load`] | callers that contend while something goes wrong |
//! | [`recorder`] | finds two bodies in one lock, within one process |
//! | [`oracle`] | the same for many processes, with every promise, from a file |
//! | [`chaos`] | the fault harness: each requirement, the seeded bugs, the full run |
//! | [`blocked`] | a runtime with all workers blocked |
//! | [`lateness`] | how late this machine wakes threads, for bounds on delays |
//! | [`room`] | processors for tests that need some, or all of them for one |
//! | [`holder`] | a lock that is held until the test says otherwise |
//! | [`scratch`] | an empty directory of a test |
//! | [`variant`] | the name of an error's variant |
//! | [`rerun`] | a test of the present program, with a seeded bug |
//! | [`postgres::mutants`] | a test of the present program, with a bug in PostgreSQL's functions |
//! | [`python`] | an interpreter with redis-py |
//! | [`clock`], [`wait`], [`random`], [`process`] | time, bounded waiting, seeds, signals |

/// The examples in the attribute's documentation. A build of leasehold for them alone would be a
/// second build, because the compiler loads what the macros' own tests need.
#[cfg(doctest)]
#[doc = include_str!("../../macros/src/attribute.md")]
mod distributed_lock {}

/// The programs in the documentation for each framework.
#[cfg(doctest)]
#[doc = include_str!("../../docs/frameworks.md")]
mod frameworks {}

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
