//! The harness of leasehold's behaviour tests: real servers, real processes, a network that can be
//! made to fail, and an oracle that says whether two holders overlapped.
//!
//! | module | noun |
//! |---|---|
//! | [`server`] | a `redis-server` process of the test's own |
//! | [`quorum`] | several independent servers |
//! | [`proxy`] | a network that delays, swallows, cuts, and loses replies |
//! | [`worker`] | a process in which annotated functions run, to be stopped and killed |
//! | [`probe`] | who looks at a key, apart from the code under test |
//! | [`recorder`] | who saw two bodies in one lock, within one process |
//! | [`oracle`] | the same for many processes, with every promise, from a file |
//! | [`chaos`] | the fault harness: each requirement, the seeded bugs, the full run |
//! | [`python`] | an interpreter with redis-py |
//! | [`clock`], [`wait`], [`random`], [`process`] | time, bounded waiting, seeds, signals |

pub mod chaos;
pub mod clock;
pub mod oracle;
pub mod probe;
pub mod process;
pub mod proxy;
pub mod python;
pub mod quorum;
pub mod random;
pub mod recorder;
pub mod redis_probe;
pub mod server;
pub mod wait;
pub mod worker;
