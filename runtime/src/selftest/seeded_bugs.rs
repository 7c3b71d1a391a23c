//! Seeded bugs: tests switch them on, to see that they are found. Only this repository's tests
//! compile them, and only in builds with debug assertions.

/// The environment variable that names the bug that a process runs with.
const VARIABLE: &str = "LEASEHOLD_SEEDED_BUG";

/// The bug that this process runs with.
///
/// # Panics
///
/// If the variable names no bug. A test that means to seed a bug must not pass without it.
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
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            /// All bugs.
            pub(crate) const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];
        }
    };
}

bugs! {
    /// The lease is counted from the reply instead of from the request.
    CountedFromReply,
    /// A renewal that says "not yours" is taken for a passing error.
    LossIgnored,
    /// A renewal without a known outcome prolongs the lease.
    UnknownIsSuccess,
    /// An abandoned acquire is forgotten instead of removed.
    OrphanForgotten,
    /// One removal is believed to settle an acquire without a known outcome.
    RemovalBelieved,
    /// The lease is given up at the end of the key's ttl instead of before.
    NoMargin,
    /// The end of a waiter's budget comes ten times too late.
    BudgetIgnored,
    /// The gate polls the body at any time.
    NoGate,
    /// The lock is released before the body is dropped.
    ReleasedBeforeDrop,
    /// A release deletes the key of any holder.
    DeleteWithoutCompare,
    /// A renewal prolongs the key of any holder.
    RenewWithoutCompare,
    /// A renewal sets the key, and so creates it again.
    RenewBySet,
    /// An acquire that finds its own token is refused.
    NotIdempotent,
    /// The fence is a counter that starts again with an empty server.
    FenceFromCounter,
    /// The watchdog does not renew.
    WatchdogAsleep,
    /// A quorum is counted among the nodes that answered.
    QuorumOfAnswers,
    /// A node that was restarted empty votes at once.
    NoQuarantine,
    /// A lock that is handed over inside the process counts as acquired anew, and so outlives its
    /// lease.
    HandedOverWithoutEnd,
    /// A lock is handed over inside the process although a transaction of its holder may be under
    /// way.
    PinsUnminded,
    /// A row that another transaction has locked fails the requests for other rows, again and
    /// again.
    LockedRowFailsAll,
    /// A lock that is handed over keeps the fence of its previous holder.
    FenceHandedOver,
    /// A process that queues at the store asks again only when the store tells it to, or when the
    /// lease of the holder ends.
    MessageBelieved,
    /// A lock that was handed to a process stays with it although it does not ask for the lock.
    HandOverBelieved,
    /// The claim of a lock that is handed to a process has a form that the previous version does
    /// not know.
    ClaimReworded,
    /// A process that does not ask for the key that was handed to it keeps its place in the queue.
    DeadWaiterKept,
    /// A reader takes a share of a lock that another client holds alone.
    WriterUnseen,
    /// A writer takes a lock of which readers have shares.
    ReadersUnseen,
    /// The lock's key ends with the share that was taken last, and not with the share that lasts
    /// longest.
    ShareShortened,
    /// A share that has ended is not removed while there are other shares.
    DeadShareKept,
    /// A reader does not queue behind the writers that wait.
    WritersPassed,
    /// A call with permits has room up to the greatest number in use, not up to its own.
    GreatestNumberCounts,
    /// The bound of a lock with permits is not checked.
    PermitsUncounted,
    /// A process that queues is taken to be alive until the time of its last sign of life. The
    /// server's clock was set back from that time.
    FutureBelieved,
    /// A claim is kept as long as its key says, although the server's clock was set back since.
    OldClaimBelieved,
    /// A lock that is kept after its release still carries its token, so that a late renewal
    /// prolongs it.
    KeptTokenStays,
    /// A late renewal revives a share that has ended.
    EndedShareRevived,
    /// The lock's key ends with the share that was renewed last, and not with the share that lasts
    /// longest.
    ShareShortenedByRenewal,
    /// A renewal of a share begins with a command that needs memory.
    ShareNeedsMemory,
    /// A process hands a lock over for as long as its calls want it, though other clients wait.
    WayNotMade,
    /// The first process in the queue takes a lock that is left free for other clients.
    PauseSkipped,
    /// The server forgets since when processes have handed a lock on.
    MarkLost,
    /// A release that finds the lock gone counts as a release that removed it.
    GoneIsReleased,
    /// In a cluster, leases without an answer count as renewed when another node has renewed its
    /// leases.
    SilenceIsKept,
    /// In a cluster, the answer to a renewal counts for the next key of the batch.
    AnswersMixed,
    /// A quorum's lease is renewed when one node has renewed it.
    RenewedByOne,
    /// Of several keys only the first wakes the body when it is lost.
    OnlyFirstKeyWakes,
    /// The body is polled as long as one of its keys is held.
    AnyKeyIsEnough,
    /// The time that is left of several leases is reported as that of the last to end.
    LatestEndTold,
    /// A call of several keys queues for each of them with the whole budget.
    BudgetPerKey,
    /// An abandoned acquire of several keys removes the first only.
    SecondKeyOrphaned,
    /// The release of several keys releases the first only.
    SecondKeyKept,
    /// Several keys that are acquired again with the same tokens keep the rest of their ttl.
    RepeatShortened,
    /// The end of a nested call ends the lease of its holder.
    InnerEndReleases,
    /// Nested calls of one body do not take turns.
    TurnsIgnored,
    /// The locks of a body stay on the call path of its thread when its poll is over.
    PathLeaks,
    /// A nested call that wants the lock alone enters a share of it.
    ShareEntered,
    /// A downgrade removes the bound of `max_hold`.
    MaxHoldForgotten,
    /// A lock is kept for its `hold` after an error, too.
    KeptAfterErr,
    /// A lock that is to be kept is handed over inside the process.
    KeptHandedOver,
    /// A lock is released at its body's end, although its `at_least` is not over.
    AtLeastForgotten,
    /// A share that is to be kept still belongs to its token, so that a late renewal prolongs it.
    KeptShareStays,
    /// A share that is to be kept is given back at once.
    ShareNotKept,
    /// A reader that gives up its share removes all other shares.
    ShareReleasesAll,
    /// The answers to renewals that leave together are taken for each other's.
    WrongLeaseExtended,
    /// The lease of a lock that was handed over is not renewed.
    HandedOverNotRenewed,
    /// A removal does not say which acquires it must follow.
    OrderForgotten,
    /// The end of a connection is taken for the answer to the releases on it.
    CutIsAnswer,
    /// A wake-up of the store waker is forgotten while a thread polls the store.
    WakeUpForgotten,
    /// The keeper is not woken when a listener has ended.
    ListenerEndUnheard,
    /// No listener begins where one has ended.
    LaneNeverAgain,
    /// The keeper does not look whether listeners are late.
    KeeperSleeps,
    /// The keeper does not take over from a listener that is late.
    NoTakeOver,
    /// Requests that gather after several callers were woken are not sent when those have run.
    GatheredForever,
    /// A command overtakes the commands that its task has deferred before.
    DeferredOvertaken,
    /// The keeper is not woken for a deferred command.
    DeferredUnheard,
    /// A grant does not wake its caller.
    GrantUnheard,
    /// A loss does not wake the body.
    LossUnheard,
    /// A dropped guard, or a future that is dropped inside its lock, does not release.
    DropForgotten,
    /// The last waiting call of a process is dropped, and the process keeps its place.
    DroppedCallKeepsItsPlace,
    /// The handle of a dropped call stays good until the end of the lease.
    HandleOutlivesItsCall,
    /// A holder whose lock was taken away by force is not told.
    RevocationUnheard,
    /// A process does not see what tells its session that a lock is taken away by force.
    RevocationUnseen,
    /// A lock is taken away by force although its holder's session could not be told.
    RemovedUntold,
    /// A failure is taken for the end of a holder whose lock is taken away by force.
    FailureIsGone,
    /// A watch that begins does not see that its key is gone already.
    GoneUnseen,
    /// A lock that is taken away by force is free before its holder's body has ended.
    RevokedIsFree,
    /// A shutdown does not wait for releases that are under way.
    ShutdownHurries,
    /// All acquisitions have the same token.
    TokensRepeat,
    /// The grant does not carry its fence.
    FenceUntold,
    /// The end of a session is not told to the holders of its locks.
    LostSessionUntold,
    /// The end of a session is told only when a heartbeat has found it too.
    EndOfSessionDoubted,
    /// A lock is granted or renewed although no heartbeat confirms its session for so long.
    SessionUnconfirmed,
    /// A heartbeat counts at once, although a replaced leader may have answered it.
    HeartbeatBelieved,
    /// A connection to etcd is kept whose token is refused.
    OldTokenKept,
    /// A database of etcd that is full counts as one that has carried nothing out.
    FullIsRefused,
    /// An error in the middle of a Redis script counts as if the script had changed nothing.
    ScriptsAreWhole,
    /// The time that a server granted a session counts although the next server grants less.
    GrantedTimeReadOnce,
    /// The end of a connection does not wake those that watch by it.
    WatchesForgotten,
    /// All replicas are those that are connected, and not those that the Sentinels know.
    ReplicasAwayForgotten,
    /// A pool on PostgreSQL or etcd sends each request alone, however many calls are under way.
    CallsPileUp,
    /// Sessions on PostgreSQL run functions and operators of other roles.
    SearchPathTrusted,
    /// A request that waits for calls under way does not make their connection suspect earlier.
    GatheredPatiently,
    /// A connection counts as silent although what a listener has not heard of lies on its socket.
    SilenceUnread,
    /// A lease that is not renewed goes on as long as the process lives.
    LeaseNeverEnds,
    /// The node of another session is taken for one's own.
    NodesOfAnySession,
    /// A place that is given up is asked for again by its token, while it is being removed.
    PlaceGivenTwice,
    /// A revocation is told to a node of that name in any session.
    RevocationOfAnySession,
    /// A place that is taken away by force is granted to the call whose turn it was.
    RevokedPlaceKept,
    /// A watch that is over goes on at etcd for seconds.
    WatchesLeft,
    /// Each node in etcd has a name of its own, which the server keeps until it compacts.
    NamesUsedOnce,
    /// A request to etcd that its caller has given up is sent again with the next epoch.
    GivenUpSentAgain,
    /// A place stays for the next token while a token that asked with it is released.
    ReleasedPlaceKept,
    /// The name of a node is given again while a request for it may be carried out yet.
    NamesGivenEarly,
    /// A node is removed although an earlier request may make it yet.
    NeverSealed,
    /// A `:` in a value of a key template is not encoded.
    ColonUnencoded,
    /// A result is stored although its lock is not held any more.
    RecordedWithoutCheck,
    /// A kept result answers a call with another fingerprint.
    FingerprintIgnored,
    /// A kept result answers a call of another function.
    FunctionIgnored,
    /// One answer of the store serves the calls of all functions that wait for the key.
    AnswerForAllFunctions,
    /// A result is kept that was not read back.
    KeptUnread,
    /// An error is kept as if it were a result.
    RecordedAfterErr,
    /// A call that a kept result would answer is handed a lock inside the process.
    ReplayHandedOver,
    /// A lock that was adopted keeps its token, so that it can be adopted again.
    AdoptedTwice,
    /// A kept lock is adopted with the constant that its value has for a token.
    ConstantAdopted,
    /// The fence of an adopted lock is the one in its baggage, which may be altered.
    BaggageBelieved,
    /// The server refuses all locks where another client has spoilt the counter of fences.
    SpoiltCounterKept,
    /// Fences go on where numbers of scripts are not exact any more.
    FencesInexact,
    /// Leases whose renewals were refused together are renewed together again, at once.
    RetriedTogether,
    /// A lock that was handed over to another process is still renewed and released by the first.
    RenewedAfterHandOver,
}

#[cfg(test)]
impl Bug {
    /// The bugs in the core, which the simulation sees.
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
        Self::FenceUntold,
        Self::KeptHandedOver,
        Self::AtLeastForgotten,
        Self::FingerprintIgnored,
        Self::AnswerForAllFunctions,
        Self::ReplayHandedOver,
    ];
}

/// Runs a test of this program with a bug.
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
    let told = String::from_utf8_lossy(&ended.stdout);
    let failed = told.contains(&format!("test {test} ... FAILED"));
    assert!(failed, "{test} does not fail with {bug}:\n{told}");
}

#[cfg(test)]
mod tests {
    /// The bugs that a unit test of this crate is to find.
    const IN_UNIT_TESTS: [(&str, &str); 11] = [
        (
            "RevocationOfAnySession",
            "store::session::session_tests::a_revocation_means_a_node_of_one_session",
        ),
        (
            "EndOfSessionDoubted",
            "store::session::session_tests::the_end_of_a_session_is_told_at_once",
        ),
        (
            "ReleasedPlaceKept",
            "store::session::session_tests::a_place_that_is_released_is_not_granted",
        ),
        (
            "NamesGivenEarly",
            "store::etcd::node_names::tests::a_name_is_kept_while_a_request_may_be_carried_out",
        ),
        (
            "PlaceGivenTwice",
            "store::session::session_tests::a_place_that_is_given_up_is_not_granted",
        ),
        (
            "RevokedPlaceKept",
            "store::session::session_tests::a_place_that_is_revoked_is_not_granted",
        ),
        (
            "RemovedUntold",
            "store::session::look_tests::a_node_stays_whose_session_cannot_be_told",
        ),
        (
            "FailureIsGone",
            "store::session::look_tests::a_holder_has_its_time_whatever_becomes_of_connections",
        ),
        (
            "ColonUnencoded",
            "key::tests::a_value_ends_where_its_separator_is",
        ),
        (
            "LaneNeverAgain",
            "engine::driver::lanes::tests::another_listens_where_one_has_ended",
        ),
        (
            "NoTakeOver",
            "engine::driver::lanes::tests::the_keeper_takes_over_where_answers_lie_two_times_in_a_row",
        ),
    ];

    /// Fails if one of those tests does not fail with its bug.
    #[test]
    fn unit_tests_find_their_bugs() {
        for (bug, test) in IN_UNIT_TESTS {
            super::assert_found(bug, test);
        }
    }
}
