//! Lanes: which runtime hears of answers.
//!
//! A lane is one of the store's sockets with its listener, a task on a caller's runtime. While a
//! socket has none, the next caller's runtime gets the listener. Threads read under the engine's
//! mutex, so any thread that may take the mutex may read. The listener wakes callers of its runtime
//! on the thread that is awake already.
//!
//! A runtime may be blocked, or end. When it ends, its listener tells the engine so. While requests
//! are under way the keeper looks every [`WATCH`] whether one was answered. Where answers lie
//! unread the keeper reads them. If that happens two times in a row the keeper takes over: it hears
//! of answers itself, and no caller's runtime listens for [`PENALTY`].

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::store::Socket;

/// How often the keeper looks whether listeners are late, while requests are under way.
pub(super) const WATCH: Duration = Duration::from_millis(20);

/// How often the keeper looks while only messages may come. A process that a key was handed to has
/// a second to ask for it.
const SLOW_WATCH: Duration = Duration::from_millis(100);

/// For how long no runtime listens after a listener was late, or after a thread of low priority
/// polled it.
const PENALTY: Duration = Duration::from_secs(1);

/// For how long no runtime listens after a runtime could not: it has no I/O driver, or the process
/// has too many open files.
const UNABLE: Duration = Duration::from_secs(60);

/// How many times in a row answers lie unread before the keeper takes over. Answers that lie unread
/// once may have come just then.
const LATE: u32 = 2;

/// Names a listener. No number is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenerId(u64);

/// The store's sockets and their listeners.
pub(super) struct Lanes {
    all: Vec<Lane>,
    /// Whether callers' runtimes may listen at all.
    allowed: bool,
    /// No runtime begins to listen before this time.
    not_before: Instant,
    last: u64,
    /// When the keeper looks next, while there is something to hear.
    watch_at: Option<Instant>,
    /// How many answers and messages had come when the keeper looked last.
    seen: u64,
    /// How many times in a row answers lay unread.
    late: u32,
}

struct Lane {
    socket: Arc<dyn Socket>,
    /// `None` while the keeper hears.
    listener: Option<ListenerId>,
}

/// Listeners that are to be spawned.
pub(super) type NewListeners = Vec<(ListenerId, Arc<dyn Socket>)>;

/// What listeners are to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// Answers to requests.
    Answer,
    /// Messages that the server sends unasked, about locks that are held or waited for.
    Message,
    Nothing,
}

impl Waits {
    /// How long the keeper waits before it looks.
    fn pause(self) -> Option<Duration> {
        match self {
            Self::Answer => Some(WATCH),
            Self::Message => Some(SLOW_WATCH),
            Self::Nothing => None,
        }
    }
}

/// What the keeper finds when it looks at the lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    /// The time has not come, or something was read, or there is nothing to hear.
    Well,
    /// Nothing was read since the keeper looked last.
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

    /// Takes over the sockets that the store has now. Listeners of sockets that are gone end.
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

    /// Whether a caller's runtime is to listen now.
    pub(super) fn are_wanted(&self, now: Instant) -> bool {
        let silent = |lane: &Lane| lane.listener.is_none();
        self.allowed && self.all.iter().any(silent) && self.not_before <= now
    }

    /// Leaves each socket that has no listener to a new one. Returns those, to be spawned.
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

    /// A listener hears that something has come. `false` if it is no socket's listener any more.
    pub(super) fn heard_by(&self, listener: ListenerId) -> bool {
        let mut lanes = self.all.iter();
        let lane = lanes.find(|lane| lane.listener == Some(listener));
        if let Some(lane) = lane {
            lane.socket.heard();
        }
        lane.is_some()
    }

    /// Lets the thread that polls the store next read all sockets.
    pub(super) fn hear_all(&self) {
        for lane in &self.all {
            lane.socket.heard();
        }
    }

    /// A listener has ended. `true` if the keeper is to hear in its place.
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

    /// A thread that must not read polls this listener. `true` if the keeper is to hear in its
    /// place. The listener's runtime may also have threads that may read.
    pub(super) fn outranked(&mut self, listener: ListenerId, now: Instant) -> bool {
        let heard = self.end(listener);
        if heard {
            self.not_before = now + PENALTY;
        }
        heard
    }

    /// A caller's runtime could not start a listener.
    pub(super) fn unable(&mut self, now: Instant) {
        self.not_before = now + UNABLE;
    }

    fn is_any_listened_to(&self) -> bool {
        self.all.iter().any(|lane| lane.listener.is_some())
    }

    /// Sets when the keeper looks next, unless it looks sooner or there is nothing to hear.
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

    /// The keeper looks, if it is time. `heard`: how many answers and messages have come.
    pub(super) fn watch(&mut self, heard: u64, waits: Waits, now: Instant) -> Watched {
        if self.watch_at.is_none_or(|at| now < at) {
            return Watched::Well;
        }
        let still = heard == self.seen;
        self.seen = heard;
        // The keeper looks once more after the last answer. So it need not be woken for each of the
        // requests that follow each other.
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

    /// The keeper has read all sockets, because it found [`Still`](Watched::Still).
    pub(super) fn read(&mut self, heard: u64, now: Instant) {
        if heard == self.seen {
            // No answer lay unread: the server is slow, and not the listener.
            self.late = 0;
            return;
        }
        self.seen = heard;
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
        heard: AtomicBool,
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

        fn heard(&self) {
            self.heard.store(true, Ordering::SeqCst);
        }
    }

    /// Two sockets, and a listener for each.
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
    fn another_listens_where_one_has_ended() {
        let (mut lanes, [wire, other], [ended, _]) = lanes();
        assert!(lanes.end(ended) && !wire.is_left_to_listener());
        assert!(other.is_left_to_listener());
        assert!(!lanes.heard_by(ended) && lanes.are_wanted(NOW));
        let begun = lanes.begin();
        assert_eq!(begun.len(), 1);
        assert!(wire.is_left_to_listener() && lanes.heard_by(begun[0].0));
        assert!(wire.heard.load(Ordering::SeqCst));
        assert!(!lanes.end(ended), "one that was replaced");
    }

    #[test]
    fn a_listener_of_a_socket_that_is_gone_is_none() {
        let (mut lanes, [_, stays], [gone, listener]) = lanes();
        lanes.follow(vec![stays]);
        assert!(!lanes.heard_by(gone) && lanes.heard_by(listener));
        assert!(!lanes.are_wanted(NOW));
    }

    /// The keeper looks. `come` answers were read before, and `lay` answers lie unread.
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
    fn the_keeper_takes_over_where_answers_lie_two_times_in_a_row() {
        let (mut lanes, wires, [listener, _]) = lanes();
        let mut answers = 0;
        lanes.watch_from(Waits::Answer, NOW);
        // The server is slow; the listener is late once; it is late again, and well between.
        for (come, lay) in [(0, 0), (0, 1), (3, 0), (0, 1), (0, 0), (0, 2)] {
            look(&mut lanes, &mut answers, come, lay);
            assert!(lanes.heard_by(listener), "{come} {lay}");
        }
        assert_eq!(look(&mut lanes, &mut answers, 0, 1), Watched::Still);
        assert!(!lanes.heard_by(listener));
        assert!(wires.iter().all(|wire| !wire.is_left_to_listener()));
        let now = lanes.watch_at().expect("it looks on");
        assert!(!lanes.are_wanted(now));
        assert!(lanes.are_wanted(now + PENALTY));
    }

    /// Fails if a listener is not replaced that is late for each of several single requests.
    #[test]
    fn it_takes_over_where_each_request_is_late() {
        let (mut lanes, _, [listener, _]) = lanes();
        let (mut heard, mut now) = (0, NOW);
        for _ in 0..LATE {
            assert!(lanes.heard_by(listener));
            lanes.watch_from(Waits::Answer, now);
            now = lanes.watch_at().expect("it looks");
            assert_eq!(lanes.watch(heard, Waits::Answer, now), Watched::Still);
            heard += 1;
            lanes.read(heard, now);
            // Nothing more is asked for some time.
            while let Some(at) = lanes.watch_at() {
                now = at;
                assert_eq!(lanes.watch(heard, Waits::Nothing, now), Watched::Well);
            }
        }
        assert!(!lanes.heard_by(listener));
    }

    /// Fails if messages that a listener leaves unread are read only at the next request.
    #[test]
    fn it_looks_for_messages_too() {
        let (mut lanes, _, _) = lanes();
        lanes.watch_from(Waits::Message, NOW);
        let look = NOW + SLOW_WATCH;
        assert_eq!(lanes.watch_at(), Some(look));
        assert_eq!(lanes.watch(0, Waits::Message, look), Watched::Still);
        lanes.watch_from(Waits::Answer, look);
        assert_eq!(lanes.watch_at(), Some(look + WATCH), "sooner");
    }

    #[test]
    fn the_keeper_looks_while_requests_are_under_way_and_once_more() {
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
