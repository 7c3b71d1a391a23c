//! Keeps a session connected: replaces each ended connection.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use tokio::sync::watch;

use super::handshake::Granted;
use super::line::Line;
use super::servers::{Resumed, Servers};

/// The current connection of a session.
pub(super) enum Current {
    Up(Arc<Line>),
    /// The last connection has ended, and the next one is not open yet.
    Between,
    /// This process no longer uses the session, which may still exist at the servers.
    Over,
}

/// Replaces each ended connection of a session. Stops when the session is over or must be closed.
/// The session must be closed if `closing` is true, or if the sender of `closing` is dropped.
pub(super) async fn follow(
    servers: Arc<Servers>,
    (granted, own): (Granted, String),
    mut line: Arc<Line>,
    current: watch::Sender<Current>,
    mut closing: watch::Receiver<bool>,
) {
    let session = Resumed {
        ticket: &granted.ticket,
        lasts: granted.lasts,
        own: &own,
    };
    loop {
        let closes = {
            let (over, closes) = (pin!(line.over()), pin!(closing.wait_for(|closes| *closes)));
            matches!(select(closes, over).await, Either::Left(_))
        };
        current.send_replace(Current::Between);
        drop(line);
        if closes {
            break;
        }
        let Some(next) = servers.resume(&session).await else {
            break;
        };
        line = Arc::new(next);
        current.send_replace(Current::Up(Arc::clone(&line)));
    }
    current.send_replace(Current::Over);
}
