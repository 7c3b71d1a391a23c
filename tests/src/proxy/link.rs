//! One connection through the proxy.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::protocol::{Direction, Messages};
use super::{After, Mode, Shared, contains};
use crate::random::Random;

/// The earliest time at which the proxy may pass a message on, and the message.
type Parcel = (Instant, Vec<u8>);

/// Carries messages in both directions until either side closes or the connection is cut.
pub(super) async fn run(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) {
    // `TCP_NODELAY`: the proxy must add only the delays that a test requests.
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut cut = shared.generation.subscribe();
    let mut half_open = shared.half_open.subscribe();
    let mut hang_up = shared.hang_up.subscribe();
    let link = Link::new(shared);
    let mut requests = Box::pin(link.carry(Direction::ToServer, &mut from_client, &mut to_server));
    let mut replies = Box::pin(link.carry(Direction::ToClient, &mut from_server, &mut to_client));
    tokio::select! {
        () = &mut requests => return,
        () = &mut replies => return,
        _ = cut.changed() => return,
        _ = half_open.changed() => {}
        _ = hang_up.changed() => {
            drop(replies);
            let _ = to_client.shutdown().await;
            let (_, late) = *hang_up.borrow();
            tokio::time::sleep(late).await;
            return requests.await;
        }
    }
    drop((requests, replies));
    drop((from_server, to_server));
    tokio::select! {
        () = discard(&mut from_client) => {}
        _ = cut.changed() => {}
    }
}

async fn discard(from: &mut OwnedReadHalf) {
    let mut buffer = vec![0; 4096];
    while from.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
}

struct Link<'a> {
    shared: &'a Shared,
    /// For each command without a reply so far, in order: `None` if its reply passes, otherwise the
    /// fate of the connection after the loss of the reply.
    fates: Mutex<VecDeque<Option<After>>>,
    /// True if all further requests of this connection must be lost.
    no_requests: AtomicBool,
    /// True if all further replies of this connection must be lost.
    no_replies: AtomicBool,
}

impl<'a> Link<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            fates: Mutex::default(),
            no_requests: AtomicBool::new(false),
            no_replies: AtomicBool::new(false),
        }
    }

    /// Reads bytes, cuts them into messages, delays each message as the mode requires, and writes
    /// the message. If the sender closes, the messages that it sent before still arrive.
    async fn carry(&self, way: Direction, from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) {
        let (send, mut parcels) = mpsc::unbounded_channel::<Parcel>();
        let read = self.read(way, from, send);
        let write = async {
            while let Some((due, bytes)) = parcels.recv().await {
                tokio::time::sleep_until(due).await;
                if to.write_all(&bytes).await.is_err() {
                    break;
                }
            }
        };
        tokio::join!(read, write);
    }

    async fn read(
        &self,
        way: Direction,
        from: &mut OwnedReadHalf,
        send: mpsc::UnboundedSender<Parcel>,
    ) {
        let mut random = Random::new(self.shared.connections.load(Ordering::Relaxed));
        let mut messages = Messages::new(self.shared.protocol, way);
        let mut buffer = vec![0; 16 * 1024];
        let mut last = Instant::now();
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            messages.push(&buffer[..length]);
            while let Some(mut message) = messages.next() {
                let Some(delay) = self.admit(way, &mut random).await else {
                    continue;
                };
                if way == Direction::ToServer {
                    self.hold(&message).await;
                }
                if way == Direction::ToClient && self.ends_with(&mut message) {
                    return;
                }
                if way == Direction::ToClient && self.no_replies.load(Ordering::Relaxed) {
                    continue;
                }
                if self.is_lost_message(way, &message) {
                    continue;
                }
                self.count(way, &message);
                if way == Direction::ToClient && *self.shared.mode.borrow() == Mode::Garble {
                    message = self.shared.protocol.garbage().to_vec();
                }
                last = last.max(Instant::now() + delay);
                if send.send((last, message)).is_err() {
                    return;
                }
            }
        }
        // If the server closes the connection while its replies must vanish, the client must not
        // notice the end of the stream either.
        if self.admit(way, &mut random).await.is_none() && way == Direction::ToClient {
            std::future::pending::<()>().await;
        }
    }

    /// Returns the delay of the next message, or `None` if the message must vanish. Waits while the
    /// mode is `Stall`.
    async fn admit(&self, way: Direction, random: &mut Random) -> Option<Duration> {
        let mut mode = self.shared.mode.subscribe();
        let mode = *mode.wait_for(|mode| *mode != Mode::Stall).await.ok()?;
        let to_server = way == Direction::ToServer;
        match mode {
            Mode::BlackHole => self.silence(),
            Mode::SwallowReplies if !to_server => self.no_replies.store(true, Ordering::Relaxed),
            Mode::SwallowRequests if to_server => self.no_requests.store(true, Ordering::Relaxed),
            _ => {}
        }
        let lost = if to_server {
            &self.no_requests
        } else {
            &self.no_replies
        };
        if lost.load(Ordering::Relaxed) {
            return None;
        }
        Some(match mode {
            Mode::Delay { least, jitter } => least + random.duration(jitter),
            Mode::DelayReplies(delay) if !to_server => delay,
            _ => Duration::ZERO,
        })
    }

    /// Waits while requests like this one are held back.
    async fn hold(&self, request: &[u8]) {
        let holds = |text: &Vec<u8>| !text.is_empty() && contains(request, text);
        let mut held = self.shared.hold.subscribe();
        if holds(&held.borrow()) {
            self.shared.held.fetch_add(1, Ordering::Relaxed);
            let _ = held.wait_for(|text| !holds(text)).await;
        }
    }

    fn is_lost_message(&self, way: Direction, message: &[u8]) -> bool {
        way == Direction::ToClient
            && *self.shared.mode.borrow() == Mode::LoseMessages
            && self.shared.protocol.is_published(message)
    }

    fn silence(&self) {
        self.no_requests.store(true, Ordering::Relaxed);
        self.no_replies.store(true, Ordering::Relaxed);
    }

    /// Counts a message. For a command with a reply, also records the fate of the reply.
    fn count(&self, way: Direction, message: &[u8]) {
        if way == Direction::ToClient {
            self.shared.replies.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.shared.commands.fetch_add(1, Ordering::Relaxed);
        let now = leasehold::__test::now();
        self.shared.last_command.store(now, Ordering::Release);
        if self.shared.protocol.is_answered(message) {
            let fate = self.shared.loses(message);
            self.fates
                .lock()
                .expect("no panic under this lock")
                .push_back(fate);
        }
    }

    /// Handles a reply that must be lost: replaces the reply or silences the connection. Returns
    /// `true` if the connection must be closed instead. All other replies, and replies that are
    /// errors, stay unchanged.
    fn ends_with(&self, reply: &mut Vec<u8>) -> bool {
        let protocol = self.shared.protocol;
        if protocol.is_push(reply) {
            return false;
        }
        let fate = self
            .fates
            .lock()
            .expect("no panic under this lock")
            .pop_front();
        let Some(Some(after)) = fate else {
            return false;
        };
        if protocol.is_error(reply) {
            self.shared.not_lost();
            return false;
        }
        self.shared.lost.fetch_add(1, Ordering::Relaxed);
        match after {
            After::Cut => return true,
            After::Silence => self.silence(),
            After::Instead(answer) => *reply = answer.as_bytes().to_vec(),
            After::Error(error) => *reply = protocol.error(error),
        }
        false
    }
}
