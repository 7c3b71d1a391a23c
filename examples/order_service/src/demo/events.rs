//! Server-sent events for the page.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::{Stream, stream};
use serde::Serialize;
use tokio::sync::broadcast::{self, error::RecvError};

use super::holder::Holder;
use super::ledger::{Count, Outcome};
use super::services::View;

/// Maximum number of kept events. A page opened later receives the kept events. A slow page loses
/// events only if it is this many events behind.
const KEPT: usize = 2_000;

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The two services, at the start and after each restart of one.
    Services { services: Vec<View> },
    /// A button was clicked, which begins a round.
    Round {
        round: u32,
        title: &'static str,
        lock: bool,
        order: String,
    },
    /// A request was sent to a service.
    Sent {
        round: u32,
        click: u32,
        service: &'static str,
    },
    /// The answer to a sent request has arrived.
    Answered {
        round: u32,
        click: u32,
        status: Option<u16>,
        retry_after: Option<String>,
        replayed: bool,
        detail: String,
        took_ms: u128,
    },
    /// A service was killed.
    Killed { round: u32, service: &'static str },
    /// The holder of the order's lock, if any. `away` is true if the lock store does not answer.
    Lock { holder: Option<Holder>, away: bool },
    /// The end of a round (the clicks of one button), with the counts from the tables.
    Verdict {
        round: u32,
        count: Count,
        outcome: Outcome,
        text: String,
    },
}

/// Sends events to every open page. A page opened later also receives the kept events.
#[derive(Debug, Clone)]
pub(crate) struct Events(Arc<Mutex<Channel>>);

#[derive(Debug)]
struct Channel {
    history: VecDeque<Arc<str>>,
    /// `None` after `close`, so that the streams of open pages end.
    sender: Option<broadcast::Sender<Arc<str>>>,
}

impl Events {
    pub(crate) fn new() -> Self {
        let (sender, _) = broadcast::channel(KEPT);
        Self(Arc::new(Mutex::new(Channel {
            history: VecDeque::new(),
            sender: Some(sender),
        })))
    }

    pub(crate) fn send(&self, event: &Event) {
        let json: Arc<str> = serde_json::to_string(event)
            .expect("an event has texts and numbers only")
            .into();
        let mut channel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(event, Event::Lock { .. }) {
            channel.history.push_back(Arc::clone(&json));
            while channel.history.len() > KEPT {
                channel.history.pop_front();
            }
        }
        if let Some(sender) = &channel.sender {
            let _ = sender.send(json); // an error means that no page is open
        }
    }

    /// Ends every stream.
    pub(crate) fn close(&self) {
        let mut channel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        channel.sender = None;
    }

    /// Returns the kept events, and all later events.
    pub(crate) fn stream(&self) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>> + use<>> {
        let channel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let history = channel.history.clone();
        let receiver = channel.sender.as_ref().map(broadcast::Sender::subscribe);
        drop(channel);
        let events = stream::unfold(
            (history, receiver),
            |(mut history, mut receiver)| async move {
                let json = match history.pop_front() {
                    Some(json) => json,
                    None => next(receiver.as_mut()?).await?,
                };
                Some((Ok(sse::Event::default().data(json)), (history, receiver)))
            },
        );
        Sse::new(events).keep_alive(KeepAlive::default())
    }
}

async fn next(receiver: &mut broadcast::Receiver<Arc<str>>) -> Option<Arc<str>> {
    loop {
        match receiver.recv().await {
            Ok(json) => return Some(json),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}
