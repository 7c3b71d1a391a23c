//! Models of the lanes (the sockets and their listeners), the keeper and the callers. `shuttle`
//! runs each model many times, in random schedules of its threads. `scripts/models` runs all models
//! and prints the number of schedules.
//!
//! The models use the real code of the engine's state, its mutex, the lanes,
//! [`store_waker`](super::store_waker) and [`lease_cell`](crate::engine::lease_cell). The keeper's
//! loop and the callers' code are simplified copies. The server, its socket, the clock and the
//! runtimes are simulated.
//!
//! In some models time stands still. A lost wake-up then ends in a deadlock, which `shuttle`
//! detects. In the other models time passes. There, the keeper must read the answers that a blocked
//! runtime leaves unread.

use std::future::{Future, poll_fn};
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
use super::notifications::notify;
use super::shared::Shared;
use super::state::EngineState;
use super::store_waker::StoreWaker;
use crate::base::clock::Clock;
use crate::base::full_key::FullKey;
use crate::base::label::Label;
use crate::base::lease_terms::Terms;
use crate::base::token::{Nonce, Token};
use crate::engine::core::signal::Limits;
use crate::engine::core::ticket::{Acquire, SiteId};
use crate::selftest::fixtures::LONG;

mod server;

use self::server::{Server, Store};

/// Number of schedules that each model tries, unless `LEASEHOLD_MODEL_RUNS` sets another number.
const RUNS: usize = 2_000;

/// A waker that unblocks a waiting thread.
#[derive(Default)]
struct Parker {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Parker {
    fn wait(&self) {
        let mut woken = self.woken.lock().expect("no thread panics inside");
        while !mem::take(&mut *woken) {
            woken = self.changed.wait(woken).expect("no thread panics inside");
        }
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().expect("no thread panics inside") = true;
        self.changed.notify_one();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let parker = Arc::new(Parker::default());
    let waker = Waker::from(Arc::clone(&parker));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        parker.wait();
    }
}

/// Advances the model's clock, which is the paused clock of `tokio`.
fn advance(by: Duration) {
    let advanced = pin!(tokio::time::advance(by));
    let _ = advanced.poll(&mut Context::from_waker(Waker::noop()));
}

/// Runs the keeper's loop without a timer. With `Time::Passes`, a sleep of up to [`WATCH`] ends at
/// once: it advances the clock, unless the server still has requests to answer.
fn keep(shared: &Shared, clock: Clock, server: &Server, time: Time) {
    let parker = Arc::new(Parker::default());
    let waker = Waker::from(Arc::clone(&parker));
    shared.store_waker.hand_over();
    loop {
        shared.store_waker.register(&waker);
        let called = shared.store_waker.is_called();
        let mut state = shared.lock();
        shared.do_what_is_due(&mut state, called);
        let (over, sleep) = (state.is_over(), state.sleep());
        let until = clock.now() + sleep;
        state.keeper_sleeps(until);
        let notifications = state.take_notifications();
        drop(state);
        notify(notifications);
        if over {
            return shared.stop();
        }
        if sleep <= WATCH && time == Time::Passes {
            if server.state().requests.is_empty() {
                advance(sleep);
            }
            thread::yield_now();
        } else {
            parker.wait();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Time {
    StandsStill,
    Passes,
}

/// Behavior of the simulated runtimes, each of which polls one listener.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// A runtime runs until the end of the model.
    Lasts,
    /// A runtime sometimes ends. The next caller then starts a new listener on another runtime.
    Ends,
    /// A runtime sometimes blocks until all calls are done.
    Blocks,
}

/// Priorities of the threads that poll the callers' tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Callers {
    Usual,
    /// Each command of a task is sent by a thread of normal or of low priority, at random. A
    /// low-priority thread defers the command to the keeper.
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
    /// Sends a command like `Engine::send`, but starts each new listener on a simulated runtime.
    fn send(self: &Arc<Self>, command: Command) {
        let outranked =
            self.callers == Callers::Mixed && shuttle::rand::thread_rng().gen_ratio(1, 2);
        if outranked {
            return self.engine.shared.defer(command).expect("it works");
        }
        let executed = self.engine.shared.execute(command, || Some(()));
        let executed = executed.expect("it works");
        for (id, socket) in executed.into_iter().flat_map(|((), new)| new) {
            let listening = listener::listen(&self.engine.shared, id, &socket);
            let (fate, server) = (self.fate, Arc::clone(&self.server));
            let running = thread::spawn(move || run(listening, fate, &server));
            self.runtimes().push(running);
        }
    }

    fn runtimes(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.runtimes.lock().expect("no thread panics inside")
    }

    /// Makes one call, which acquires and releases a lock. One call in four is instead abandoned
    /// right after its command `Acquire`.
    fn call(self: &Arc<Self>, key: &str) {
        let id = self.engine.next_ticket();
        let cell = self.engine.new_cell(&FullKey::from(key));
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

/// Returns the parameters of a call for the lock `name`.
fn acquire(name: &str) -> Acquire {
    Acquire {
        key: name.into(),
        token: Token::random(Nonce::new()),
        function: "",
        site: SiteId(1),
        label: Label::other(),
        terms: Terms::new(LONG).expect("a ttl"),
        watchdog: None,
        wait: LONG,
        cooldown: Duration::ZERO,
        share: None,
        min_hold: None,
        replay: None,
    }
}

/// Simulates a runtime with one task, a listener.
fn run(listening: impl Future<Output = ()> + Send, fate: Fate, server: &Server) {
    let mut random = shuttle::rand::thread_rng();
    let parker = Arc::new(Parker::default());
    let waker = Waker::from(Arc::clone(&parker));
    let mut listening: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(listening);
    loop {
        match fate {
            Fate::Ends if random.gen_ratio(1, 3) => return,
            // Blocks until all calls are done. The calls must succeed without this runtime.
            Fate::Blocks if random.gen_ratio(1, 3) => {
                let mut state = server.state();
                while !state.over {
                    state = server.ended.wait(state).expect("no thread panics inside");
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
        parker.wait();
    }
}

/// Runs two callers that make two calls each.
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
        announced: false,
    };
    let store_waker = Arc::new(StoreWaker::default());
    let limits = Limits::of_tests(LONG, 100);
    let state = EngineState::new(
        Box::new(store),
        "the model".to_owned(),
        limits,
        clock,
        true,
        Arc::clone(&store_waker),
    );
    let shared = Arc::new(Shared::new(state, store_waker));
    let world = Arc::new(World {
        engine: Engine::new(Arc::clone(&shared), clock, false),
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
    // After this command, the engine ends as soon as all locks are released.
    world.send(Command::Close);
    keeping.join().expect("no panic");
    let runtimes = mem::take(&mut *world.runtimes());
    drop(world);
    server.close();
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
fn all_callers_are_woken_if_a_listener_reads() {
    check("a listener that lasts", || {
        model(Fate::Lasts, Time::StandsStill, Callers::Usual)
    });
}

#[test]
fn all_callers_are_woken_if_listeners_end() {
    check("listeners that end", || {
        model(Fate::Ends, Time::StandsStill, Callers::Usual)
    });
}

#[test]
fn all_callers_are_woken_if_listeners_are_blocked() {
    check("listeners that are blocked", || {
        model(Fate::Blocks, Time::Passes, Callers::Usual)
    });
}

#[test]
fn all_callers_are_woken_if_priorities_differ() {
    check("callers of low priority", || {
        model(Fate::Lasts, Time::StandsStill, Callers::Mixed)
    });
}

#[test]
fn all_callers_are_woken_with_priorities_and_blocked_listeners() {
    check(
        "callers of low priority, and listeners that are blocked",
        || model(Fate::Blocks, Time::Passes, Callers::Mixed),
    );
}

/// Fails if a bug seeded into the engine is not detected by its model. Each of these bugs causes a
/// deadlock, or leaves a key at the server.
#[test]
fn the_models_detect_their_seeded_bugs() {
    const LASTS: &str = "all_callers_are_woken_if_a_listener_reads";
    const ENDS: &str = "all_callers_are_woken_if_listeners_end";
    const BLOCKED: &str = "all_callers_are_woken_if_listeners_are_blocked";
    const MIXED: &str = "all_callers_are_woken_if_priorities_differ";
    for (bug, model) in [
        ("WakeUpForgotten", BLOCKED),
        ("ListenerEndUnnoticed", ENDS),
        ("KeeperSleeps", BLOCKED),
        ("GatheredForever", LASTS),
        ("GrantUnnoticed", LASTS),
        ("OrphanForgotten", LASTS),
        ("DeferredOvertaken", MIXED),
        ("DeferredUnnoticed", MIXED),
    ] {
        crate::selftest::seeded_bugs::assert_found(bug, &format!("engine::driver::model::{model}"));
        println!("{bug}: found by {model}");
    }
}
