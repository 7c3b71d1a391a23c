//! Seeded bugs, which tests switch on to check that they are detected. They are compiled for unit
//! tests, and with the feature `__test` in builds with debug assertions.

/// Environment variable that names the seeded bug of a process.
const VARIABLE: &str = "LEASEHOLD_SEEDED_BUG";

/// Returns the seeded bug of this process, if any.
///
/// # Panics
///
/// If the variable does not name a bug. A test that means to seed a bug must not pass without it.
pub(crate) fn active() -> Option<Bug> {
    static ACTIVE: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    *ACTIVE.get_or_init(|| {
        let name = std::env::var(VARIABLE).ok()?;
        let bug = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
        Some(bug.unwrap_or_else(|| panic!("{VARIABLE}={name} names no bug")))
    })
}

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A bug that a distributed lock could have.
        ///
        /// "To hand over" means to pass a lock on directly to a waiting call of the same process,
        /// or to the next queued process.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            pub(crate) const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];
        }
    };
}

bugs! {
    /// The lease is counted from the reply instead of from the request.
    CountedFromReply,
    /// A renewal refused with "not yours" is treated as a transient error.
    LossIgnored,
    /// A renewal whose outcome is unknown prolongs the lease.
    UnknownIsSuccess,
    /// The lock that an abandoned acquire may have set is forgotten instead of removed.
    OrphanForgotten,
    /// One confirmed removal counts as the end of an acquire whose outcome is unknown, although the
    /// acquire may still arrive later.
    RemovalBelieved,
    /// The body may be polled until the ttl of its key ends, instead of only until its deadline.
    NoMargin,
    /// A call waits ten times as long as its `wait` allows.
    BudgetIgnored,
    /// The body is polled even if its lease is over.
    NoGate,
    /// A blocking body or a leader's body returns its value although its lease was lost.
    LateValueReturned,
    /// Two calls of `lead` have the lock at the same time.
    TwoLeaders,
    /// A call of `lead` ends after its first failed try.
    LeaderGivesUp,
    /// A parked thread polls its call within tokio's cooperative budget, which tokio refills only
    /// when the task yields.
    ParkedOnBudget,
    /// A task that runs on the thread of a waiting body counts as being inside that body's lock.
    PathOfThread,
    /// The lock is released before the body is dropped.
    ReleasedBeforeDrop,
    /// A release deletes the key of any holder.
    DeleteWithoutCompare,
    /// A renewal prolongs the key of any holder.
    RenewWithoutCompare,
    /// A renewal sets the key, and so creates it again.
    RenewBySet,
    /// A repeated acquire, which finds its own token in the key, is refused.
    NotIdempotent,
    /// The fences come from a counter, which starts again on an empty server.
    FenceFromCounter,
    /// A due renewal is not sent.
    WatchdogAsleep,
    /// A majority of the nodes that answered counts as a quorum, instead of a majority of all
    /// nodes.
    QuorumOfAnswers,
    /// A node restarted without its data votes at once.
    NoQuarantine,
    /// The lease of a lock handed over inside the process begins again at the hand-over, so it
    /// outlives the key at the store.
    HandedOverWithoutEnd,
    /// A lock is handed over inside the process although a database transaction that has checked
    /// its fence may still run.
    PinsUnminded,
    /// While another transaction has locked one row of PostgreSQL's table of locks, the requests
    /// for other rows fail too, again and again.
    LockedRowFailsAll,
    /// A handed-over lock keeps the fence of its previous holder.
    FenceHandedOver,
    /// A process in the store's queue repeats its request only when the store notifies it or the
    /// holder's lease ends.
    MessageBelieved,
    /// A lock handed over to a process stays reserved for it, although the process does not request
    /// it.
    HandOverBelieved,
    /// The store marks a lock reserved for a waiting process in a form that the previous version of
    /// leasehold cannot read.
    ClaimReworded,
    /// A process keeps its place in the queue although it did not request the key while the store
    /// reserved the key for it.
    DeadWaiterKept,
    /// A reader gets a share of a lock that another client holds exclusively.
    WriterUnseen,
    /// A writer gets a lock although readers have shares of it.
    ReadersUnseen,
    /// The lock's key expires with the share taken last, not with the share that lasts longest.
    ShareShortened,
    /// An ended share is not removed while there are other shares.
    DeadShareKept,
    /// A reader does not queue behind waiting writers.
    WritersPassed,
    /// A call with `permits` applies the greatest limit that any call uses, instead of its own
    /// limit.
    GreatestNumberCounts,
    /// Permits are granted without a check of their limit.
    PermitsUncounted,
    /// After the server's clock was set back, the last sign of life of a queued process is in the
    /// future. The process counts as alive at least until then.
    FutureBelieved,
    /// After the server's clock was set back, a lock reserved for a waiting process stays reserved
    /// until its key expires.
    OldClaimBelieved,
    /// A lock kept after its release still carries its token, so a late renewal prolongs it.
    KeptTokenStays,
    /// A late renewal revives an ended share.
    EndedShareRevived,
    /// The lock's key expires with the share renewed last, not with the share that lasts longest.
    ShareShortenedByRenewal,
    /// A renewal of a share begins with a command that needs memory, which a full server refuses.
    ShareNeedsMemory,
    /// A key in constant use is never left free for clients that do not use the queue.
    WayNotMade,
    /// The first process in the queue takes a lock during the pause in which the lock is left free
    /// for other clients.
    PauseSkipped,
    /// The server loses the time since which a key has been in constant use, and so does not leave
    /// the key free in time for clients that do not use the queue.
    MarkLost,
    /// A release that finds the lock gone counts as a release that removed it.
    GoneIsReleased,
    /// In a cluster, an unanswered renewal counts as successful.
    SilenceIsKept,
    /// In a cluster, the answer to the renewal of one key counts for the next key of the batch.
    AnswersMixed,
    /// A lease on several nodes counts as renewed when one node has renewed it, instead of a
    /// majority.
    RenewedByOne,
    /// Of several keys, only the loss of the first wakes the body.
    OnlyFirstKeyWakes,
    /// The body is polled as long as one of its keys is held.
    AnyKeyIsEnough,
    /// The remaining time reported for several leases is that of the lease that ends last.
    LatestEndReported,
    /// A call for several keys waits for each of them as long as its `wait` allows, instead of for
    /// all together.
    BudgetPerKey,
    /// An abandoned acquire of several keys removes only the first.
    SecondKeyOrphaned,
    /// The release of several keys releases only the first.
    SecondKeyKept,
    /// Several keys acquired again with the same tokens keep the remaining time of the first
    /// acquire.
    RepeatShortened,
    /// The end of a nested call ends the lease of the call around it.
    InnerEndReleases,
    /// Nested calls of one body run at the same time instead of one after another.
    TurnsIgnored,
    /// After a poll of a body has ended, its thread still counts as being inside the body's locks.
    PathLeaks,
    /// A nested call that needs the exclusive lock runs inside a share that the call around it
    /// holds.
    ShareEntered,
    /// A downgrade removes the limit of `max_hold`.
    MaxHoldForgotten,
    /// A lock is kept for its `cooldown` even after an error.
    KeptAfterErr,
    /// A lock is handed over inside the process although it must stay locked after its call.
    KeptHandedOver,
    /// A lock is released at the end of its body, although its `min_hold` has not passed.
    MinHoldForgotten,
    /// A share kept after its release still belongs to its token, so a late renewal prolongs it.
    KeptShareStays,
    /// A share is released at once instead of being kept.
    ShareNotKept,
    /// A reader that releases its share removes the shares of all readers.
    ShareReleasesAll,
    /// In a batch of renewals, each renewal receives the answer to another renewal.
    WrongLeaseExtended,
    /// The lease of a handed-over lock is not renewed.
    HandedOverNotRenewed,
    /// A removal is sent without the list of the unanswered acquires that it undoes, so it counts
    /// as final although they may arrive later.
    OrderForgotten,
    /// The end of a connection counts as the answer to the releases sent on it.
    CutIsAnswer,
    /// If the store calls its waker while a thread polls it, that thread does not poll again.
    WakeUpForgotten,
    /// The keeper is not woken when a listener has ended.
    ListenerEndUnnoticed,
    /// No new listener starts for a socket whose listener has ended.
    LaneNeverAgain,
    /// The keeper does not check for late listeners.
    KeeperSleeps,
    /// The keeper does not take over from a late listener.
    NoTakeOver,
    /// Requests are collected while several woken callers run, but are not sent after the callers
    /// have run.
    GatheredForever,
    /// A command is executed before earlier commands of its task, which a low-priority thread has
    /// left to the keeper.
    DeferredOvertaken,
    /// The keeper is not woken for a command that a low-priority thread has left to it.
    DeferredUnnoticed,
    /// `ready` does not request a lock.
    ReadyUnasked,
    /// A lazy pool does not try to connect again.
    LazyGivesUp,
    /// A call that tries once waits for a store that is known to be away.
    AbsenceIgnored,
    /// The login on an open connection is not renewed before its credentials end.
    LoginNotRenewed,
    /// The program's credentials function runs on the thread of the engine.
    CredentialsOnEngine,
    /// A grant does not wake its caller.
    GrantUnnoticed,
    /// A loss does not wake the body.
    LossUnnoticed,
    /// A dropped guard, or a future dropped inside its lock, does not release.
    DropForgotten,
    /// The last waiting call of a process is dropped, but the process keeps its place in the
    /// store's queue.
    DroppedCallKeepsItsPlace,
    /// The handle of a dropped call stays valid until the end of the lease.
    HandleOutlivesItsCall,
    /// A holder whose lock was taken away by force is not notified.
    RevocationUnnoticed,
    /// A request to take a lock away is repeated if its answer is lost.
    ForcedReleaseRepeated,
    /// After a time-out while a connection is set up, the late answer counts for the next request.
    AnswersShifted,
    /// A request to take a lock away is served even if it arrives late.
    LateReleaseServed,
    /// A process ignores the notification to its session that a lock was taken away by force.
    RevocationUnseen,
    /// A lock is taken away by force although its holder's session could not be notified.
    RemovedUnreported,
    /// While a lock is taken away by force, its holder counts as gone if the check of its node
    /// fails.
    FailureIsGone,
    /// A new watch does not notice that its key is already gone.
    GoneUnseen,
    /// A lock taken away by force is free before its holder's body has ended.
    RevokedIsFree,
    /// A shutdown does not wait for unanswered releases.
    ShutdownHurries,
    /// All acquisitions have the same token.
    TokensRepeat,
    /// The grant does not carry its fence.
    FenceUnreported,
    /// The end of a session is not reported to the holders of its locks.
    LostSessionUnreported,
    /// The end of a session is reported only after a heartbeat has confirmed it.
    EndOfSessionDoubted,
    /// A lock is granted or renewed beyond the time for which heartbeats have confirmed its
    /// session.
    SessionUnconfirmed,
    /// A heartbeat counts at once, although a leader that the cluster has already replaced may have
    /// answered it.
    HeartbeatBelieved,
    /// A connection to etcd is kept although etcd refuses its login token.
    OldTokenKept,
    /// A request that a full etcd database refuses counts as not carried out, although etcd may
    /// have carried it out.
    FullIsRefused,
    /// A Redis script that fails in the middle counts as a script that changed nothing.
    ScriptsAreWhole,
    /// The session time granted by one ZooKeeper server counts although the next server grants
    /// less.
    GrantedTimeReadOnce,
    /// The end of a connection does not wake the tasks that wait for its watches.
    WatchesForgotten,
    /// With `replicas = all`, only the connected replicas count, instead of all that the Sentinels
    /// know.
    ReplicasAwayForgotten,
    /// A pool on PostgreSQL or etcd sends each request at once and alone, although many requests
    /// are unanswered.
    CallsPileUp,
    /// Sessions on PostgreSQL run functions and operators that other roles have created.
    SearchPathTrusted,
    /// A collected request waits longer than its own time-out for the answers to earlier requests.
    GatheredPatiently,
    /// A connection counts as silent although its socket has bytes that a late listener has not
    /// read.
    SilenceUnread,
    /// On etcd or ZooKeeper, an expired lease keeps its lock as long as its process runs.
    LeaseNeverEnds,
    /// A process mistakes a node of another session for its own node.
    NodesOfAnySession,
    /// A call can still get the lock by a place in the queue, although its process has given the
    /// place up and removes it.
    PlaceGivenTwice,
    /// A revocation of a node also counts for the node of the same name in another session.
    RevocationOfAnySession,
    /// A place in the queue is taken away by force, but a call can still get the lock by it.
    RevokedPlaceKept,
    /// A watch continues at etcd for seconds after the client has ended it.
    WatchesLeft,
    /// The watches of a connection to etcd that the client has given up continue there.
    WatchesOfTheGivenUp,
    /// A failed attempt to resume a session at ZooKeeper closes the session.
    AttemptsClose,
    /// Each node in etcd gets a new name, which the server keeps until it compacts.
    NamesUsedOnce,
    /// A request to etcd is sent again with its session's new revision (epoch) although its caller
    /// has given it up.
    GivenUpSentAgain,
    /// While a release removes a place in the queue, the next call can still get the lock by it.
    ReleasedPlaceKept,
    /// The name of a node is reused while the server may still execute a request for that node.
    NamesGivenEarly,
    /// A node is removed although an earlier request may still arrive and create it again.
    NeverSealed,
    /// A `:` in a value of a key template is not encoded.
    ColonUnencoded,
    /// A result is stored although its lock is no longer held.
    RecordedWithoutCheck,
    /// A kept result answers a call with another fingerprint.
    FingerprintIgnored,
    /// A kept result answers a call of another function.
    FunctionIgnored,
    /// A kept result of one function also answers the waiting calls of other functions for the key.
    AnswerForAllFunctions,
    /// A result is kept without a check that it reads back as the same value.
    KeptUnread,
    /// An error is stored as if it were a result.
    RecordedAfterErr,
    /// The engine hands a lock over to a `replay` call, instead of asking the store for the kept
    /// result.
    ReplayHandedOver,
    /// An adopted lock keeps its token, so it can be adopted again.
    AdoptedTwice,
    /// A call can adopt a kept lock with a token of zeros, because the value of a kept lock has
    /// zeros instead of a token.
    ConstantAdopted,
    /// The fence of an adopted lock is taken from its handover, which may have been altered.
    ForgedFenceBelieved,
    /// The server refuses all locks after another client has corrupted the counter of fences.
    SpoiltCounterKept,
    /// Fences continue beyond the range in which Lua's numbers are exact.
    FencesInexact,
    /// After a refused batch of renewals, the same leases are renewed at once, again in one batch
    /// instead of in separate requests.
    RetriedTogether,
    /// A lock handed over to another process is still renewed and released by the first process.
    RenewedAfterHandOver,
}

#[cfg(test)]
impl Bug {
    /// Bugs in the core, which the simulation detects.
    pub(crate) const IN_CORE: [Self; 20] = [
        Self::CountedFromReply,
        Self::LossIgnored,
        Self::UnknownIsSuccess,
        Self::OrphanForgotten,
        Self::RemovalBelieved,
        Self::NoMargin,
        Self::BudgetIgnored,
        Self::HandedOverWithoutEnd,
        Self::FenceHandedOver,
        Self::WayNotMade,
        Self::WrongLeaseExtended,
        Self::OrderForgotten,
        Self::SecondKeyOrphaned,
        Self::MaxHoldForgotten,
        Self::FenceUnreported,
        Self::KeptHandedOver,
        Self::MinHoldForgotten,
        Self::FingerprintIgnored,
        Self::AnswerForAllFunctions,
        Self::ReplayHandedOver,
    ];
}

/// Runs a test of this program with a seeded bug.
///
/// # Panics
///
/// If the test does not fail.
#[cfg(test)]
pub(crate) fn assert_found(bug: &str, test: &str) {
    let program = std::env::current_exe().expect("this program has a path");
    let mut again = std::process::Command::new(program);
    let ended = again.args([test, "--exact"]).env(VARIABLE, bug).output();
    let ended = ended.expect("this program starts again");
    let printed = String::from_utf8_lossy(&ended.stdout);
    let failed = printed.contains(&format!("test {test} ... FAILED"));
    assert!(failed, "{test} does not fail with {bug}:\n{printed}");
}

#[cfg(test)]
mod tests {
    /// Bugs that a unit test of this crate must detect, each with the name of the test.
    const IN_UNIT_TESTS: [(&str, &str); 11] = [
        (
            "RevocationOfAnySession",
            "store::session::session_tests::a_revocation_applies_to_a_node_of_one_session",
        ),
        (
            "EndOfSessionDoubted",
            "store::session::session_tests::the_end_of_a_session_is_reported_at_once",
        ),
        (
            "ReleasedPlaceKept",
            "store::session::session_tests::a_released_place_is_not_granted",
        ),
        (
            "NamesGivenEarly",
            "store::etcd::node_names::tests::a_node_name_is_kept_while_a_request_is_pending",
        ),
        (
            "PlaceGivenTwice",
            "store::session::session_tests::an_abandoned_place_is_not_granted",
        ),
        (
            "RevokedPlaceKept",
            "store::session::session_tests::a_revoked_place_is_not_granted",
        ),
        (
            "RemovedUnreported",
            "store::session::look_tests::a_node_of_an_unknown_session_stays",
        ),
        (
            "FailureIsGone",
            "store::session::look_tests::a_holder_keeps_its_grace_despite_broken_connections",
        ),
        (
            "ColonUnencoded",
            "key::tests::values_cut_at_different_separators_differ",
        ),
        (
            "LaneNeverAgain",
            "engine::driver::lanes::tests::an_ended_listener_is_replaced",
        ),
        (
            "NoTakeOver",
            "engine::driver::lanes::tests::the_keeper_replaces_a_listener_late_twice_in_a_row",
        ),
    ];

    /// Fails if a test in `IN_UNIT_TESTS` does not fail with its bug.
    #[test]
    fn unit_tests_detect_their_seeded_bugs() {
        for (bug, test) in IN_UNIT_TESTS {
            super::assert_found(bug, test);
        }
    }
}
