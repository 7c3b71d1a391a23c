//! The simulated server of the models, its only connection, and the store that uses both.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use shuttle::sync::{Condvar, Mutex, MutexGuard};

use crate::base::token::Token;
use crate::store::{Give, Listen, LockStore, Op, OpId, Reply, Request, Socket, StoreEvent, Take};

/// A server and its only connection.
#[derive(Default)]
pub(super) struct Server {
    state: Mutex<State>,
    pub(super) asked: Condvar,
    pub(super) ended: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) requests: VecDeque<Request>,
    replies: VecDeque<(OpId, Reply)>,
    pub(super) held: HashMap<String, Token>,
    /// Number of replies so far, plus one after the store is dropped. A listener has input to read
    /// if this number has grown since its last poll.
    events: u64,
    /// True if a listener, and not the keeper, waits for replies.
    listener: bool,
    received: bool,
    closed: bool,
    wakers: Vec<Waker>,
    /// True if all callers are done.
    pub(super) over: bool,
}

impl Server {
    /// Ends the server. All locks must be released, and no request must follow.
    pub(super) fn close(&self) {
        let mut state = self.state();
        assert!(
            state.held.is_empty(),
            "left behind: {:?}",
            state.held.keys()
        );
        state.over = true;
        self.asked.notify_all();
        self.ended.notify_all();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics inside")
    }

    pub(super) fn serve(&self) {
        let mut state = self.state();
        loop {
            let Some(request) = state.requests.pop_front() else {
                if state.over {
                    return;
                }
                state = self.asked.wait(state).expect("no thread panics inside");
                continue;
            };
            let reply = state.answer(request.op);
            state.replies.push_back((request.id, reply));
            state.events += 1;
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
            Op::Take(Take { key, token, .. }) => {
                let holder = *self.held.entry(key.name().to_owned()).or_insert(token);
                if holder != token {
                    return Reply::Held {
                        left: None,
                        queued: false,
                        owner: None,
                    };
                }
                Reply::Acquired {
                    fence: None,
                    reserved_fences: 0,
                    wanted: None,
                }
            }
            Op::Give(Give { key, token, .. }) => {
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
            other => panic!("no call asks that: {other:?}"),
        }
    }
}

pub(super) struct Store {
    pub(super) server: Arc<Server>,
    pub(super) unsent: Vec<Request>,
    pub(super) announced: bool,
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
        if state.listener && !state.received {
            return Poll::Pending;
        }
        if let Some((id, reply)) = state.replies.pop_front() {
            return Poll::Ready(StoreEvent::Reply(id, Ok(reply)));
        }
        state.received = false;
        if !state.listener {
            state.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn sockets(&mut self) -> Option<Vec<Arc<dyn Socket>>> {
        let first = !mem::replace(&mut self.announced, true);
        let socket = Connection(Arc::clone(&self.server));
        first.then(|| vec![Arc::new(socket) as Arc<dyn Socket>])
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let mut state = self.server.state();
        state.closed = true;
        state.events += 1;
        let wakers = mem::take(&mut state.wakers);
        drop(state);
        for waker in wakers {
            waker.wake();
        }
    }
}

struct Connection(Arc<Server>);

impl Socket for Connection {
    fn listen(&self) -> io::Result<Box<dyn Listen>> {
        Ok(Box::new(Readiness {
            server: Arc::clone(&self.0),
            seen: 0,
        }))
    }

    fn leave_to_listener(&self, listener: bool) {
        self.0.state().listener = listener;
    }

    fn received(&self) {
        self.0.state().received = true;
    }
}

struct Readiness {
    server: Arc<Server>,
    seen: u64,
}

impl Listen for Readiness {
    fn poll_received(
        &mut self,
        cx: &mut Context<'_>,
        read: &mut dyn FnMut(),
    ) -> Poll<io::Result<()>> {
        let mut state = self.server.state();
        if state.events == self.seen {
            state.wakers.push(cx.waker().clone());
            return Poll::Pending;
        }
        self.seen = state.events;
        drop(state);
        read();
        Poll::Ready(Ok(()))
    }
}
