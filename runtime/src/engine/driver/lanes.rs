//! Lanes: the store's sockets, and the tasks that wait for answers on them.
//!
//! A lane is one of the store's sockets with its listener, a task on a caller's runtime. If a
//! socket has no listener, the next call starts one on the runtime of its caller. Answers are read
//! under the engine's mutex, so any thread that may take the mutex may read them. A listener can
//! wake callers of its own runtime without waking another thread.
//!
//! The listeners of an ended runtime end too, and notify the engine. If a runtime is blocked, the
//! keeper detects this: while requests are under way, it checks at intervals of [`WATCH`] whether
//! an answer was read. If answers are unread, the keeper reads them. After unread answers at two
//! checks in a row, the keeper takes over. For the time of [`PENALTY`], no listener runs, and the
//! keeper waits for all answers.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::store::Socket;

/// Interval at which the keeper checks for late listeners, while requests are under way.
pub(super) const WATCH: Duration = Duration::from_millis(20);

/// Interval of the keeper's checks while no request is under way, but the server may send a
/// message. It may be longer than `WATCH`, because no message is very urgent. The most urgent one
/// reserves a key for this process, which then has a second to request it.
const SLOW_WATCH: Duration = Duration::from_millis(100);

/// Time in which no new listener starts, after a listener was late or was polled by a low-priority
/// thread.
const PENALTY: Duration = Duration::from_secs(1);

/// Time in which no new listener starts, after a start has failed. Either the runtime has no I/O
/// driver, or the process has too many open files.
const UNABLE: Duration = Duration::from_secs(60);

/// Number of consecutive checks with unread answers before the keeper takes over. A single check
/// proves nothing, because the answers may have arrived just before it.
const LATE: u32 = 2;

/// Identifies a listener. Numbers are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenerId(u64);

/// The store's sockets and their listeners.
pub(super) struct Lanes {
    all: Vec<Lane>,
    /// True if there may be listeners on callers' runtimes.
    allowed: bool,
    /// No new listener starts before this time.
    not_before: Instant,
    last: u64,
    /// Time of the keeper's next check, if one is planned.
    watch_at: Option<Instant>,
    /// Number of answers and messages that were read by the end of the keeper's last check.
    seen: u64,
    /// Number of consecutive checks in which the keeper found unread answers.
    late: u32,
}

struct Lane {
    socket: Arc<dyn Socket>,
    /// `None` while the keeper waits for answers on this socket.
    listener: Option<ListenerId>,
}

/// Listeners to spawn.
pub(super) type NewListeners = Vec<(ListenerId, Arc<dyn Socket>)>;

/// Input that may arrive on the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// Answers to requests.
    Answer,
    /// Messages that the server sends without a request, about held or awaited locks.
    Message,
    Nothing,
}

impl Waits {
    /// Returns the time until the keeper's next check; none if no check is needed.
    fn pause(self) -> Option<Duration> {
        match self {
            Self::Answer => Some(WATCH),
            Self::Message => Some(SLOW_WATCH),
            Self::Nothing => None,
        }
    }
}

/// Result of the keeper's check for late listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    /// The check is not due, or input was read since the last check, or no input is expected.
    Well,
    /// No input was read since the last check, although some is expected.
    Still,
}

impl Lanes {
    pub(super) fn new(allowed: bool) -> Self {
        Self {
            all: Vec::new(),
            allowed,
            not_before: Instant::ZERO,
            last: 0,
            watch_at: None,
            seen: 0,
            late: 0,
        }
    }

    /// Replaces the sockets with the store's current ones. Listeners of removed sockets end.
    pub(super) fn follow(&mut self, sockets: Vec<Arc<dyn Socket>>) {
        let mut before = std::mem::take(&mut self.all);
        let lane = |socket: Arc<dyn Socket>| {
            let known = before
                .iter()
                .position(|lane| Arc::ptr_eq(&lane.socket, &socket));
            known.map_or_else(
                || Lane {
                    socket,
                    listener: None,
                },
                |at| before.swap_remove(at),
            )
        };
        self.all = sockets.into_iter().map(lane).collect();
    }

    /// True if a caller's runtime should start listeners now.
    pub(super) fn are_wanted(&self, now: Instant) -> bool {
        let silent = |lane: &Lane| lane.listener.is_none();
        self.allowed && self.all.iter().any(silent) && self.not_before <= now
    }

    /// Assigns a new listener to each socket without one. Returns the new listeners, which the
    /// caller must spawn.
    pub(super) fn begin(&mut self) -> NewListeners {
        let mut listeners = Vec::new();
        for lane in &mut self.all {
            if lane.listener.is_none() {
                self.last += 1;
                let id = ListenerId(self.last);
                lane.listener = Some(id);
                lane.socket.leave_to_listener(true);
                listeners.push((id, Arc::clone(&lane.socket)));
            }
        }
        listeners
    }

    /// Records that a listener found input. Returns `false` if the engine has removed this
    /// listener, or its socket is closed.
    pub(super) fn received_by(&self, listener: ListenerId) -> bool {
        let mut lanes = self.all.iter();
        let lane = lanes.find(|lane| lane.listener == Some(listener));
        if let Some(lane) = lane {
            lane.socket.received();
        }
        lane.is_some()
    }

    /// Makes the next poll of the store read all sockets.
    pub(super) fn receive_all(&self) {
        for lane in &self.all {
            lane.socket.received();
        }
    }

    /// Removes an ended listener. Returns `true` if the keeper must now wait for answers on the
    /// socket. Returns `false` if the listener was removed before, or its socket is closed.
    pub(super) fn end(&mut self, listener: ListenerId) -> bool {
        let mut lanes = self.all.iter_mut();
        let lane = lanes.find(|lane| lane.listener == Some(listener));
        if let Some(lane) = lane {
            if !seeded!(LaneNeverAgain) {
                lane.listener = None;
            }
            lane.socket.leave_to_listener(false);
            return true;
        }
        false
    }

    /// Removes a listener that was polled by a low-priority thread, because such a thread must not
    /// read. No new listener starts for the time of [`PENALTY`]. Returns `true` if the keeper must
    /// wait for answers instead.
    pub(super) fn outranked(&mut self, listener: ListenerId, now: Instant) -> bool {
        let received = self.end(listener);
        if received {
            self.not_before = now + PENALTY;
        }
        received
    }

    /// Records that a caller's runtime could not start a listener.
    pub(super) fn unable(&mut self, now: Instant) {
        self.not_before = now + UNABLE;
    }

    fn is_any_listened_to(&self) -> bool {
        self.all.iter().any(|lane| lane.listener.is_some())
    }

    /// Plans the keeper's next check. Does nothing if an earlier check is planned, no input is
    /// expected, or no socket has a listener.
    pub(super) fn watch_from(&mut self, waits: Waits, now: Instant) {
        let Some(pause) = waits.pause() else {
            return;
        };
        let late = self.watch_at.is_none_or(|at| now + pause < at);
        if late && self.is_any_listened_to() && !seeded!(KeeperSleeps) {
            self.watch_at = Some(now + pause);
        }
    }

    pub(super) fn watch_at(&self) -> Option<Instant> {
        self.watch_at
    }

    /// Does the keeper's check, if it is due. `received` is the number of answers and messages read
    /// so far.
    pub(super) fn watch(&mut self, received: u64, waits: Waits, now: Instant) -> Watched {
        if self.watch_at.is_none_or(|at| now < at) {
            return Watched::Well;
        }
        let still = received == self.seen;
        self.seen = received;
        // If no more input is expected, still plans one check after the last answer was read. So a
        // request sent before that check need not wake the keeper to plan another.
        let pause = waits.pause().or((!still).then_some(WATCH));
        self.watch_at = pause.map(|pause| now + pause);
        if !still {
            self.late = 0;
        }
        if still && waits != Waits::Nothing {
            Watched::Still
        } else {
            Watched::Well
        }
    }

    /// Records that the keeper has read all sockets after its check returned
    /// [`Still`](Watched::Still). Removes all listeners after [`LATE`] consecutive checks with
    /// unread answers. `received` is the number of answers and messages read so far.
    pub(super) fn read(&mut self, received: u64, now: Instant) {
        if received == self.seen {
            // There was no unread answer, so the server is slow and no listener is late.
            self.late = 0;
            return;
        }
        self.seen = received;
        self.late += 1;
        if self.late < LATE || seeded!(NoTakeOver) {
            return;
        }
        self.late = 0;
        self.not_before = now + PENALTY;
        for lane in &mut self.all {
            lane.listener = None;
            lane.socket.leave_to_listener(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::store::Listen;

    const NOW: Instant = Instant::ZERO;

    #[derive(Default)]
    struct Wire {
        listener: AtomicBool,
        received: AtomicBool,
    }

    impl Wire {
        fn is_left_to_listener(&self) -> bool {
            self.listener.load(Ordering::SeqCst)
        }
    }

    impl Socket for Wire {
        fn listen(&self) -> io::Result<Box<dyn Listen>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn leave_to_listener(&self, listener: bool) {
            self.listener.store(listener, Ordering::SeqCst);
        }

        fn received(&self) {
            self.received.store(true, Ordering::SeqCst);
        }
    }

    /// Creates two sockets, each with a listener.
    fn lanes() -> (Lanes, [Arc<Wire>; 2], [ListenerId; 2]) {
        let mut lanes = Lanes::new(true);
        let wires: [Arc<Wire>; 2] = Default::default();
        lanes.follow(wires.iter().map(|wire| Arc::clone(wire) as _).collect());
        assert!(lanes.are_wanted(NOW));
        let begun = lanes.begin();
        assert!(!lanes.are_wanted(NOW));
        assert!(wires.iter().all(|wire| wire.is_left_to_listener()));
        (lanes, wires, [begun[0].0, begun[1].0])
    }

    #[test]
    fn an_ended_listener_is_replaced() {
        let (mut lanes, [wire, other], [ended, _]) = lanes();
        assert!(lanes.end(ended) && !wire.is_left_to_listener());
        assert!(other.is_left_to_listener());
        assert!(!lanes.received_by(ended) && lanes.are_wanted(NOW));
        let begun = lanes.begin();
        assert_eq!(begun.len(), 1);
        assert!(wire.is_left_to_listener() && lanes.received_by(begun[0].0));
        assert!(wire.received.load(Ordering::SeqCst));
        assert!(!lanes.end(ended), "one that was replaced");
    }

    #[test]
    fn a_closed_socket_has_no_listener() {
        let (mut lanes, [_, stays], [gone, listener]) = lanes();
        lanes.follow(vec![stays]);
        assert!(!lanes.received_by(gone) && lanes.received_by(listener));
        assert!(!lanes.are_wanted(NOW));
    }

    /// Lets the keeper check for late listeners. `come` is the number of answers read since the
    /// last check. `lay` is the number of unread answers, which the keeper reads if `come` is 0.
    fn look(lanes: &mut Lanes, answers: &mut u64, come: u64, lay: u64) -> Watched {
        *answers += come;
        let now = lanes.watch_at().expect("it looks");
        let watched = lanes.watch(*answers, Waits::Answer, now);
        if watched == Watched::Still {
            *answers += lay;
            lanes.read(*answers, now);
        }
        watched
    }

    #[test]
    fn the_keeper_replaces_a_listener_late_twice_in_a_row() {
        let (mut lanes, wires, [listener, _]) = lanes();
        let mut answers = 0;
        lanes.watch_from(Waits::Answer, NOW);
        // The server is slow at two checks, the listener is late at three, but never twice in a
        // row.
        for (come, lay) in [(0, 0), (0, 1), (3, 0), (0, 1), (0, 0), (0, 2)] {
            look(&mut lanes, &mut answers, come, lay);
            assert!(lanes.received_by(listener), "{come} {lay}");
        }
        assert_eq!(look(&mut lanes, &mut answers, 0, 1), Watched::Still);
        assert!(!lanes.received_by(listener));
        assert!(wires.iter().all(|wire| !wire.is_left_to_listener()));
        let now = lanes.watch_at().expect("it looks on");
        assert!(!lanes.are_wanted(now));
        assert!(lanes.are_wanted(now + PENALTY));
    }

    /// The listener is late for each of several requests. Between the requests, the keeper's checks
    /// end. Fails if the keeper does not take over after [`LATE`] requests.
    #[test]
    fn the_keeper_replaces_a_listener_late_for_each_request() {
        let (mut lanes, _, [listener, _]) = lanes();
        let (mut received, mut now) = (0, NOW);
        for _ in 0..LATE {
            assert!(lanes.received_by(listener));
            lanes.watch_from(Waits::Answer, now);
            now = lanes.watch_at().expect("it looks");
            assert_eq!(lanes.watch(received, Waits::Answer, now), Watched::Still);
            received += 1;
            lanes.read(received, now);
            // The next request follows only after the keeper's checks have ended.
            while let Some(at) = lanes.watch_at() {
                now = at;
                assert_eq!(lanes.watch(received, Waits::Nothing, now), Watched::Well);
            }
        }
        assert!(!lanes.received_by(listener));
    }

    /// No request is under way, but the server may send messages. Fails if the keeper plans no
    /// check for messages that a late listener has not read.
    #[test]
    fn the_keeper_also_checks_for_messages() {
        let (mut lanes, _, _) = lanes();
        lanes.watch_from(Waits::Message, NOW);
        let look = NOW + SLOW_WATCH;
        assert_eq!(lanes.watch_at(), Some(look));
        assert_eq!(lanes.watch(0, Waits::Message, look), Watched::Still);
        lanes.watch_from(Waits::Answer, look);
        assert_eq!(lanes.watch_at(), Some(look + WATCH), "sooner");
    }

    #[test]
    fn the_keeper_checks_once_more_after_the_last_request() {
        let (mut lanes, _, _) = lanes();
        assert_eq!(lanes.watch_at(), None);
        lanes.watch_from(Waits::Answer, NOW);
        let first = NOW + WATCH;
        assert_eq!(lanes.watch_at(), Some(first));
        assert_eq!(lanes.watch(1, Waits::Nothing, first), Watched::Well);
        assert_eq!(lanes.watch_at(), Some(first + WATCH), "one has come");
        assert_eq!(lanes.watch(1, Waits::Nothing, first + WATCH), Watched::Well);
        assert_eq!(lanes.watch_at(), None);
    }
}
