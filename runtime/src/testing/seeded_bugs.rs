//! Bugs that tests switch on, to see that they are found. Only this repository's tests compile them,
//! and only in builds with debug assertions.

/// Names the bug that a process runs with.
const VARIABLE: &str = "LEASEHOLD_SEEDED_BUG";

/// The bug that this process runs with.
///
/// # Panics
///
/// If the variable names no bug: a test that means to seed one must not pass without it.
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
            /// All of them.
            pub(crate) const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];
        }
    };
}

bugs! {
    /// The lease is counted from the reply instead of from the request.
    CountedFromReply,
    /// A renewal that says "not yours" is taken for a passing error.
    LossIgnored,
    /// A renewal whose outcome is not known prolongs the lease.
    UnknownIsSuccess,
    /// An abandoned acquire is forgotten instead of removed.
    OrphanForgotten,
    /// One removal is believed to settle an acquire whose outcome is not known.
    RemovalBelieved,
    /// The lease is given up at the end of the key's ttl instead of before.
    NoMargin,
    /// The end of a waiter's budget comes ten times too late.
    BudgetIgnored,
    /// The body is polled whatever the time.
    NoGate,
    /// The lock is released before the body is dropped.
    ReleasedBeforeDrop,
    /// A release deletes the key whoever holds it.
    DeleteWithoutCompare,
    /// A renewal prolongs the key whoever holds it.
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
    /// A lock that is passed on inside the process counts as taken anew, and so outlives its lease.
    PassedOnWithoutEnd,
    /// A lock that is passed on keeps the fence of the one before.
    FencePassedOn,
    /// A process that queues at the store looks again only when it is told, or when the lease of the holder ends.
    MessageBelieved,
    /// A lock that was handed to a process stays with it although it does not answer.
    HandOffBelieved,
    /// A lock is handed to a process in other words than the version before this one knows.
    ClaimReworded,
    /// A process that does not take its turn keeps its place in the queue.
    DeadWaiterKept,
    /// A reader takes a share whoever has the lock.
    WriterUnseen,
    /// A writer takes a lock of which readers have shares.
    ReadersUnseen,
    /// The lock's key ends with the share that was taken last, and not with the one that lasts longest.
    ShareShortened,
    /// A share that has ended is not removed while there are others.
    DeadShareKept,
    /// A reader does not queue behind the writers that wait.
    WritersPassed,
    /// The number of places is not looked at.
    PlacesUncounted,
    /// A process that queues is taken to live on until the time of its last sign of life, which the server's clock has been set back from.
    FutureBelieved,
    /// A lock that was handed to a process is kept for it as long as its key says, from before the server's clock was set back.
    OldClaimBelieved,
    /// A lock that is kept after its release carries its token on, so that a late renewal lengthens that time.
    KeptTokenStays,
    /// A share that has ended is given again to a renewal that comes late.
    EndedShareRevived,
    /// The lock's key ends with the share that was renewed last, and not with the one that lasts longest.
    ShareShortenedByRenewal,
    /// A renewal of a share begins with a command that needs memory.
    ShareNeedsMemory,
    /// A process passes a lock on for as long as its calls want it, though other clients wait.
    WayNotMade,
    /// The first process that queues takes a lock that is left free for other clients.
    PauseSkipped,
    /// It is forgotten since when processes have handed a lock on.
    MarkLost,
    /// A release that finds the lock gone counts as one that removed it.
    GoneIsReleased,
    /// In a cluster, leases that a node does not say anything of count as renewed when those of other nodes are.
    SilenceIsKept,
    /// In a cluster, the answer to a renewal counts for the next key of the batch.
    PlacesMixed,
    /// A quorum's lease is renewed when one node says so.
    RenewedByOne,
    /// Of several keys only the first wakes the body when it is lost.
    OnlyFirstKeyWakes,
    /// The body is polled as long as one of its keys is held.
    AnyKeyIsEnough,
    /// The time that is left of several leases is that of the last to end.
    LatestEndTold,
    /// A call of several keys queues for each of them with the whole budget.
    BudgetPerKey,
    /// An abandoned acquire of several keys removes the first only.
    SecondKeyOrphaned,
    /// The release of several keys releases the first only.
    SecondKeyKept,
    /// Several keys that are taken again with the same tokens keep the rest of their ttl.
    RepeatShortened,
    /// The end of a nested call ends the lease of its holder.
    InnerEndReleases,
    /// Nested calls of one body do not take turns.
    TurnsIgnored,
    /// What a body has locked stays on the call path of its thread when its poll is over.
    PathLeaks,
    /// A nested call that wants the whole lock enters a share of it.
    ShareEntered,
    /// A downgrade removes the bound of `max_hold`.
    MaxHoldForgotten,
    /// The lock stays for its `hold` after an error, too.
    KeptAfterErr,
    /// A lock that is to stay is passed on inside the process.
    KeptPassedOn,
    /// A reader that leaves takes all other shares with it.
    PartTakesAll,
    /// The answers to renewals that leave together are those of each other's leases.
    WrongLeaseExtended,
    /// A lock that was passed on is not renewed.
    HeirNotRenewed,
    /// A removal does not say which acquires it must go behind.
    OrderForgotten,
    /// The end of a connection is taken for the answer to the releases on it.
    CutIsAnswer,
    /// What stirs in the store while a thread polls it is forgotten.
    StirForgotten,
    /// The keeper does not hear that a listener has ended.
    ListenerEndUnheard,
    /// Where a listener has ended no other begins.
    LaneNeverAgain,
    /// The keeper does not look after listeners.
    KeeperSleeps,
    /// The keeper does not take over from a listener that is late.
    NoTakeOver,
    /// What callers ask after common news is not sent when they have had their turn.
    GatheredForever,
    /// A command overtakes the deferred ones that its task has left before.
    DeferredOvertaken,
    /// The keeper is not woken for a deferred command.
    DeferredUnheard,
    /// A grant does not wake its caller.
    GrantUnheard,
    /// A loss does not wake the body.
    LossUnheard,
    /// A guard that is dropped, or a future inside its lock, does not release.
    DropForgotten,
    /// A shutdown does not wait for releases that are under way.
    ShutdownHurries,
    /// All acquisitions have the same token.
    TokensRepeat,
    /// The grant does not say its fence.
    FenceUntold,
    /// A `:` in a value of a key template is not encoded.
    ColonUnencoded,
}

#[cfg(test)]
impl Bug {
    /// Those that live in the core, where the simulation sees them.
    pub(crate) const IN_CORE: [Self; 15] = [
        Self::CountedFromReply,
        Self::LossIgnored,
        Self::UnknownIsSuccess,
        Self::OrphanForgotten,
        Self::RemovalBelieved,
        Self::NoMargin,
        Self::BudgetIgnored,
        Self::PassedOnWithoutEnd,
        Self::FencePassedOn,
        Self::WayNotMade,
        Self::WrongLeaseExtended,
        Self::OrderForgotten,
        Self::SecondKeyOrphaned,
        Self::MaxHoldForgotten,
        Self::FenceUntold,
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
    const IN_UNIT_TESTS: [(&str, &str); 3] = [
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
