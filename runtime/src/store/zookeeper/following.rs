//! The connection of a session, and the one after it.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use tokio::sync::watch;

use super::handshake::Granted;
use super::line::Line;
use super::servers::{Resumed, Servers};

/// The connection of a session now.
pub(super) enum Current {
    Up(Arc<Line>),
    /// The last one has ended, and the next one is not there yet.
    Between,
    /// The session is over, for this process at least.
    Over,
}

/// Gives a session a connection after the other, until it is over or `closing`. A dropped sender
/// closes it as well.
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
