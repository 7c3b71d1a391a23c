//! Models: the lanes, the keeper and the callers under the scheduler of `shuttle`, which tries
//! random orders in which threads can run. `scripts/models` runs them and says how many orders.
//!
//! The machine, its mutex, the lanes and the atomics of [`store_waker`](super::store_waker) and of
//! [`cell`](crate::engine::lease_cell) are the product's. The keeper's loop and the callers' code are
//! copied. The server, its socket, the clock and the runtimes are the model's. Where time stands
//! still a wake-up that is lost ends in a deadlock, which `shuttle` finds. Where it passes, the
//! keeper has to mend what a runtime that is blocked leaves lying.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use shuttle::rand::Rng;
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use shuttle::thread::{self, JoinHandle};

use super::command::Command;
use super::handle::Engine;
use super::lanes::WATCH;
use super::listener;
use super::shared::Shared;
use super::state::EngineState;
use super::store_waker::StoreWaker;
use crate::base::clock::Clock;
use crate::base::full_key::FullKey;
use crate::base::lease_terms::Terms;
use crate::base::token::{Nonce, Token};
use crate::engine::core::signal::Limits;
use crate::engine::core::ticket::Acquire;
use crate::engine::lease_cell::LeaseCell;
use crate::store::{Listen, LockStore, Op, OpId, Reply, Request, Socket, StoreEvent};
use crate::testing::fixtures::LONG;

/// Orders that each model tries, but for `LEASEHOLD_MODEL_RUNS`.
const RUNS: usize = 2_000;

// ---- the server ----

/// A server, and the one connection to it.
#[derive(Default)]
struct Server {
    state: Mutex<State>,
    asked: Condvar,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    replies: VecDeque<(OpId, Reply)>,
    held: HashMap<String, Token>,
    /// Grows with each reply. A listener keeps the number that it saw last.
    notifications: u64,
    /// Whether a listener hears of replies.
    listener: bool,
    heard: bool,
    closed: bool,
    wakers: Vec<Waker>,
    /// Set when the callers are done.
    over: bool,
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics inside")
    }

    fn serve(&self) {
        let mut state = self.state();
        loop {
            let Some(request) = state.requests.pop_front() else {
                if state.over {
                    return;
                }
                state = self.asked.wait(state).expect("nobody panics inside");
                continue;
            };
            let reply = state.answer(request.op);
            state.replies.push_back((request.id, reply));
            state.notifications += 1;
            let wakers = mem::take(&mut state.wakers);
            drop(state);
            for waker in wakers {
                waker.wake();
            }
            state = self.state();
        }
    }
}

impl State {
    fn answer(&mut self, op: Op) -> Reply {
        match op {
            Op::Acquire { key, token, .. } => {
                let holder = *self.held.entry(key.name().to_owned()).or_insert(token);
                if holder != token {
                    return Reply::Held {
                        left: None,
                        queued: false,
                    };
                }
                Reply::Acquired {
                    fence: None,
                    reserved_fences: 0,
                    wanted: None,
                }
            }
            Op::Release { key, token, .. } => {
                let found = self.held.get(key.name()) == Some(&token);
                if found {
                    self.held.remove(key.name());
                }
                Reply::Released {
                    found,
                    ordered: true,
                }
            }
            Op::Leave { .. } => Reply::Left,
            other => panic!("nobody asks that: {other:?}"),
        }
    }
}

struct Store {
    server: Arc<Server>,
    unsent: Vec<Request>,
    told: bool,
}

impl LockStore for Store {
    fn submit(&mut self, batch: &mut Vec<Request>) {
        self.unsent.append(batch);
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        let mut state = self.server.state();
        if !self.unsent.is_empty() {
            state.requests.extend(self.unsent.drain(..));
            self.server.asked.notify_one();
        }
        if state.listener && !state.heard {
            return Poll::Pending;
        }
        if let Some((id, reply)) = state.replies.pop_front() {
            return Poll::Ready(StoreEvent::Reply(id, Ok(reply)));
        }
        state.heard = false;
        if !state.listener {
            state.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn sockets(&mut self) -> Option<Vec<Arc<dyn Socket>>> {
        let first = !mem::replace(&mut self.told, true);
        let socket = Wire(Arc::clone(&self.server));
        first.then(|| vec![Arc::new(socket) as Arc<dyn Socket>])
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let mut state = self.server.state();
        state.closed = true;
        state.notifications += 1;
        let wakers = mem::take(&mut state.wakers);
        drop(state);
        for waker in wakers {
            waker.wake();
        }
    }
}

struct Wire(Arc<Server>);

impl Socket for Wire {
    fn listen(&self) -> io::Result<Box<dyn Listen>> {
        Ok(Box::new(Ear {
            server: Arc::clone(&self.0),
            seen: 0,
        }))
    }

    fn leave_to_listener(&self, listener: bool) {
        self.0.state().listener = listener;
    }

    fn heard(&self) {
        self.0.state().heard = true;
    }
}

struct Ear {
    server: Arc<Server>,
    seen: u64,
}

impl Listen for Ear {
    fn poll_heard(&mut self, cx: &mut Context<'_>, read: &mut dyn FnMut()) -> Poll<io::Result<()>> {
        let mut state = self.server.state();
        if state.notifications == self.seen {
            state.wakers.push(cx.waker().clone());
            return Poll::Pending;
        }
        self.seen = state.notifications;
        drop(state);
        read();
        Poll::Ready(Ok(()))
    }
}

// ---- the threads ----

/// Lets a thread sleep until it is woken.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    ring: Condvar,
}

impl Bell {
    fn wait(&self) {
        let mut rung = self.rung.lock().expect("nobody panics inside");
        while !mem::take(&mut *rung) {
            rung = self.ring.wait(rung).expect("nobody panics inside");
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().expect("nobody panics inside") = true;
        self.ring.notify_one();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        bell.wait();
    }
}

/// Lets the model's time pass. `tokio` pauses it.
fn advance(by: Duration) {
    let advanced = pin!(tokio::time::advance(by));
    let _ = advanced.poll(&mut Context::from_waker(Waker::noop()));
}

/// The keeper, without its timer. Where `time` passes, it does so while the server has nothing to
/// do.
fn keep(shared: &Shared, clock: Clock, server: &Server, time: Time) {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    shared.store_waker.hand_over();
    loop {
        shared.store_waker.register(&waker);
        let called = shared.store_waker.is_called();
        let mut state = shared.state();
        shared.turn(&mut state, called);
        let (over, sleep) = (state.is_over(), state.sleep());
        let until = clock.now() + sleep;
        state.keeper_sleeps(until);
        let notifications = state.take_notifications();
        drop(state);
        shared.keeper_tells(notifications);
        if over {
            return shared.stop();
        }
        if sleep <= WATCH && time == Time::Passes {
            if server.state().requests.is_empty() {
                advance(sleep);
            }
            thread::yield_now();
        } else {
            bell.wait();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Time {
    StandsStill,
    Passes,
}

/// What becomes of the runtime that listens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It runs on.
    Lasts,
    /// It ends now and then; the next caller's listens from then on.
    Ends,
    /// It is blocked now and then.
    Blocks,
}

/// The threads that poll the callers' tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Callers {
    Usual,
    /// Some have a lower priority than the keeper. A task goes from one to another.
    Mixed,
}

struct World {
    engine: Engine,
    server: Arc<Server>,
    fate: Fate,
    callers: Callers,
    runtimes: Mutex<Vec<JoinHandle<()>>>,
}

impl World {
    /// What a caller's `send` does, with the model's threads for runtimes.
    fn send(self: &Arc<Self>, command: Command) {
        let outranked =
            self.callers == Callers::Mixed && shuttle::rand::thread_rng().gen_ratio(1, 2);
        if outranked {
            return self.engine.shared.defer(command).expect("it works");
        }
        let begun = self.engine.shared.take_up(command, || Some(()));
        let begun = begun.expect("it works");
        for (id, socket) in begun.into_iter().flat_map(|((), begun)| begun) {
            let listening = listener::listen(&self.engine.shared, id, &socket);
            let (fate, server) = (self.fate, Arc::clone(&self.server));
            let running = thread::spawn(move || run(listening, fate, &server));
            self.runtimes().push(running);
        }
    }

    fn runtimes(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.runtimes.lock().expect("nobody panics inside")
    }

    /// Takes and releases a lock, or gives up on the way.
    fn call(self: &Arc<Self>, key: &str) {
        let id = self.engine.next_ticket();
        let cell = LeaseCell::new(FullKey::from(key), self.engine.clock());
        self.send(Command::Acquire {
            id,
            acquire: acquire(key),
            cell: Arc::clone(&cell),
        });
        if shuttle::rand::thread_rng().gen_ratio(1, 4) {
            return self.send(Command::Abandon(id));
        }
        let granted = block_on(poll_fn(|cx| cell.poll_granted(cx)));
        granted.expect("there is time enough");
        cell.close();
        self.send(Command::Release { id, keep: None });
        block_on(poll_fn(|cx| cell.poll_released(cx)));
    }
}

/// An order for the lock of this name.
fn acquire(name: &str) -> Acquire {
    Acquire {
        key: name.into(),
        token: Token::random(Nonce::new()),
        function: "",
        terms: Terms::new(LONG).expect("a ttl"),
        watchdog: None,
        wait: LONG,
        share: None,
    }
}

/// A runtime whose only task is a listener.
fn run(listening: impl Future<Output = ()> + Send, fate: Fate, server: &Server) {
    let mut random = shuttle::rand::thread_rng();
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut listening: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(listening);
    loop {
        match fate {
            Fate::Ends if random.gen_ratio(1, 3) => return,
            // Until all is done, which is not to wait for it.
            Fate::Blocks if random.gen_ratio(1, 3) => {
                let mut state = server.state();
                while !state.over {
                    state = server.ended.wait(state).expect("nobody panics inside");
                }
            }
            _ => {}
        }
        if listening
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
        {
            return;
        }
        bell.wait();
    }
}

/// Two callers that make two calls each.
fn model(fate: Fate, time: Time, callers: Callers) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let _context = runtime.enter();
    let clock = Clock::tokio();
    let server = Arc::new(Server::default());
    let store = Store {
        server: Arc::clone(&server),
        unsent: Vec::new(),
        told: false,
    };
    let store_waker = Arc::new(StoreWaker::default());
    let limits = Limits::of_tests(LONG, 100);
    let state = EngineState::new(
        Box::new(store),
        limits,
        clock,
        true,
        Arc::clone(&store_waker),
    );
    let shared = Arc::new(Shared::new(state, store_waker));
    let world = Arc::new(World {
        engine: Engine::new(Arc::clone(&shared), clock),
        server: Arc::clone(&server),
        fate,
        callers,
        runtimes: Mutex::default(),
    });
    let serving = Arc::clone(&server);
    let serving = thread::spawn(move || serving.serve());
    let kept = Arc::clone(&server);
    let keeping = thread::spawn(move || keep(&shared, clock, &kept, time));
    let calling: Vec<_> = (0..2)
        .map(|number| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                for _ in 0..2 {
                    world.call(&format!("{number}"));
                }
            })
        })
        .collect();
    for caller in calling {
        caller.join().expect("no panic");
    }
    // The engine ends when all is released.
    world.send(Command::Close);
    keeping.join().expect("no panic");
    let runtimes = mem::take(&mut *world.runtimes());
    drop(world);
    let mut state = server.state();
    assert!(
        state.held.is_empty(),
        "left behind: {:?}",
        state.held.keys()
    );
    state.over = true;
    server.asked.notify_all();
    server.ended.notify_all();
    drop(state);
    serving.join().expect("no panic");
    for running in runtimes {
        running.join().expect("no panic");
    }
}

fn check(name: &str, model: impl Fn() + Send + Sync + 'static) {
    let runs = std::env::var("LEASEHOLD_MODEL_RUNS");
    let runs = runs.map_or(RUNS, |runs| runs.parse().expect("a number"));
    shuttle::check_random(model, runs);
    println!("{name}: {runs} orders");
}

#[test]
fn all_are_told_where_a_listener_hears() {
    check("a listener that lasts", || {
        model(Fate::Lasts, Time::StandsStill, Callers::Usual)
    });
}

#[test]
fn all_are_told_where_listeners_end() {
    check("listeners that end", || {
        model(Fate::Ends, Time::StandsStill, Callers::Usual)
    });
}

#[test]
fn all_are_told_where_listeners_are_blocked() {
    check("listeners that are blocked", || {
        model(Fate::Blocks, Time::Passes, Callers::Usual)
    });
}

#[test]
fn all_are_told_where_priorities_differ() {
    check("callers of low priority", || {
        model(Fate::Lasts, Time::StandsStill, Callers::Mixed)
    });
}

#[test]
fn all_are_told_where_priorities_differ_and_listeners_are_blocked() {
    check(
        "callers of low priority, and listeners that are blocked",
        || model(Fate::Blocks, Time::Passes, Callers::Mixed),
    );
}

/// Fails if one of these bugs is not found. Each ends in a deadlock or leaves a key behind.
#[test]
fn models_find_their_bugs() {
    const LASTS: &str = "all_are_told_where_a_listener_hears";
    const ENDS: &str = "all_are_told_where_listeners_end";
    const BLOCKED: &str = "all_are_told_where_listeners_are_blocked";
    const MIXED: &str = "all_are_told_where_priorities_differ";
    for (bug, model) in [
        ("StirForgotten", BLOCKED),
        ("ListenerEndUnheard", ENDS),
        ("KeeperSleeps", BLOCKED),
        ("GatheredForever", LASTS),
        ("GrantUnheard", LASTS),
        ("OrphanForgotten", LASTS),
        ("DeferredOvertaken", MIXED),
        ("DeferredUnheard", MIXED),
    ] {
        crate::testing::seeded_bugs::assert_found(bug, &format!("engine::driver::model::{model}"));
        println!("{bug}: found by {model}");
    }
}
