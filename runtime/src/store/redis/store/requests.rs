//! Sends requests on the connection, and reads the answers.

use redis::Value;

use super::{RedisStore, SentAcquire};
use crate::base::id_map::IdMap;
use crate::base::one_or_many::OneOrMany;
use crate::base::seeded::seeded;
use crate::store::redis::commands::batch::{self, Batch, Batcher, Batches};
use crate::store::redis::commands::in_flight::InFlight;
use crate::store::redis::commands::key_names::KeyNames;
use crate::store::redis::commands::outgoing::Outgoing;
use crate::store::redis::commands::redirect::{Redirect, RequestFlags};
use crate::store::redis::commands::{calls, failure, reply, script_sources, scripts};
use crate::store::redis::replication::{self, ReplicaAcks};
use crate::store::redis::wire::connection::{
    self, Connection, Content, Exchange, Generation, Stamp,
};
use crate::store::{Failure, Give, GiveKind, Op, OpId, Reply, Request, StoreEvent};

impl RedisStore {
    /// Sends all requests, in order. Holds them back during the first attempt to connect, and while
    /// a `WAIT` is unanswered. Without a connection, refuses them.
    pub(super) fn send(&mut self, requests: &mut Vec<Request>) {
        let most = if self.names.in_cluster() {
            1
        } else {
            batch::MOST
        };
        let turns = self.names.have_auxiliary_keys() && !self.names.in_cluster();
        let Some(connection) = &mut self.connection else {
            if self.opening {
                self.held_back.append(requests);
            } else {
                self.refuse(requests);
            }
            return;
        };
        let (generation, listening) = (connection.generation, connection.listening);
        if self
            .waiting
            .is_some_and(|stamp| stamp.generation == generation)
        {
            self.held_back.append(requests);
            return;
        }
        let mut packer = Batcher::new(most, turns);
        packer.expect(requests.len());
        let mut patience = self.io_timeout;
        let mut needs_acks = false;
        let mut resends = Vec::new();
        for request in requests.drain(..) {
            let flags = self.flags.remove(&request.id).unwrap_or_default();
            needs_acks |= ReplicaAcks::concern(&request.op);
            patience = patience.min(request.patience);
            let (ordered, elsewhere) = note(&mut self.acquires, &request, generation);
            resends.extend(elsewhere.map(|on| (on, request.op.clone())));
            packer.add(InFlight {
                id: request.id,
                op: request.op,
                flags,
                ordered,
                listening,
            });
        }
        let batches = packer.finish();
        write(&batches, &self.names, listening, connection.out());
        let replica_acks = self.replica_acks.as_ref().filter(|_| needs_acks);
        if let Some(replica_acks) = replica_acks {
            connection.out().add(&replica_acks.command(patience));
        }
        let stamp = connection.send(Content::Requests(batches), patience);
        if replica_acks.is_some() {
            self.waiting = Some(stamp);
        }
        self.unsent = true;
        for (generation, op) in resends {
            self.send_behind(generation, &op, listening);
        }
    }

    /// Sends the held-back requests, unless they must still wait.
    pub(super) fn send_held_back(&mut self) {
        if !self.held_back.is_empty() {
            let mut requests = std::mem::take(&mut self.held_back);
            self.send(&mut requests);
        }
    }

    /// Sends a removal also on the retired connection on which its acquire was sent. Even if the
    /// server reads that acquire late, it then reads the removal after the acquire.
    fn send_behind(&mut self, generation: Generation, op: &Op, listening: bool) {
        if let Some(connection) = self
            .retired
            .iter_mut()
            .find(|connection| connection.generation == generation)
        {
            calls::command(op, &self.names, listening, connection.out());
            connection.send(Content::Other, self.io_timeout);
            self.unsent = true;
        }
    }

    /// Refuses requests, because there is no connection.
    fn refuse(&mut self, requests: &mut Vec<Request>) {
        for request in requests.drain(..) {
            self.flags.remove(&request.id);
            let failure = self.supervisor.reason().clone();
            self.events
                .push_back(StoreEvent::Reply(request.id, Err(failure)));
        }
        self.supervisor.replace();
    }

    pub(super) fn answered(&mut self, exchange: Exchange) {
        let stamp = exchange.stamp;
        if let Some(connection) = self.connection_of(stamp.generation) {
            connection.answered(&exchange);
        }
        if self.waiting == Some(stamp) {
            self.waiting = None;
        }
        match (exchange.content, exchange.answers) {
            (Content::Requests(batches), Ok(answers)) => {
                self.requests_answered(batches, answers, stamp);
            }
            (Content::Scripts, Ok(answers)) => self.scripts_loaded(stamp.generation, answers),
            (Content::Login(access), Ok(answers)) => {
                let current = self.connection.as_ref();
                if current.is_some_and(|one| one.generation == stamp.generation) {
                    self.logged_in(&access, answers);
                }
            }
            (Content::Other, Ok(_)) => {}
            (content, Err(error)) => {
                let failure = failure::broken(&error);
                if let Content::Requests(batches) = content {
                    for request in batches.into_iter().flatten() {
                        let released = seeded!(CutIsAnswer)
                            && matches!(&request.op, Op::Give(give) if matches!(give.kind, GiveKind::Lock));
                        let answer = released.then_some(Reply::Released {
                            found: true,
                            ordered: true,
                        });
                        self.reply(request.id, answer.ok_or_else(|| failure.clone()));
                    }
                }
                self.lost(stamp.generation, failure);
            }
        }
        self.retired.retain(|connection| !connection.is_quiet());
        self.send_held_back();
    }

    fn requests_answered(&mut self, batches: Batches, answers: Vec<Value>, stamp: Stamp) {
        let mut answers = connection::of_requests(&batches, answers);
        // Held-back requests are sent before the answered acquires are removed from `acquires`. So
        // a held-back removal can still find that its acquires were sent on this connection.
        self.send_held_back();
        // If the store waits for replicas, the answer to `WAIT` follows those to the batches.
        let replica_acks = answers.drain(batches.len().min(answers.len())..).next();
        let mut requests = batches.iter().flat_map(|batch| batch.iter());
        let verdict = match &self.replica_acks {
            Some(judge) if requests.any(|request| ReplicaAcks::concern(&request.op)) => {
                judge.judge(replica_acks)
            }
            _ => Ok(()),
        };
        for (batch, answer) in batches.into_iter().zip(answers) {
            self.batch_answered(batch, answer, &verdict, stamp);
        }
    }

    fn batch_answered(
        &mut self,
        batch: Batch,
        answer: Value,
        verdict: &Result<(), Failure>,
        stamp: Stamp,
    ) {
        if stamp.by_source && script_sources::is_refused(&answer) {
            return self.source_refused(batch, stamp);
        }
        if self.names.in_cluster()
            && let Some(redirect) = Redirect::read(&answer)
        {
            let redirects = batch.iter().map(|request| (request.id, redirect.clone()));
            self.redirects.extend(redirects);
        }
        if batch.len() > 1 && reply::may_concern_one_key(&answer) {
            self.send_individually(batch);
            return;
        }
        let ops: OneOrMany<_> = batch.iter().map(|request| &request.op).collect();
        let replies = reply::read_all(&ops, answer, self.names.scripts());
        for (request, reply) in batch.into_iter().zip(replies) {
            let result = reply
                .map(|reply| request.complete(reply))
                .and_then(|reply| replication::counted(reply, verdict));
            self.after(&result, stamp);
            if let (Op::Give(give), Ok(_)) = (&request.op, &result) {
                self.settle(&give.after);
            }
            self.reply(request.id, result);
        }
    }

    /// Sends the requests of a refused batch again, each in its own script. Perhaps only one of
    /// them has caused the refusal.
    fn send_individually(&mut self, batch: Batch) {
        let patience = self.io_timeout;
        let alone = RequestFlags {
            alone: true,
            ..RequestFlags::default()
        };
        let mut requests = Vec::new();
        for request in batch {
            let (id, op) = (request.id, request.op);
            // The removal of an abandoned acquire is already sent, and the pool believes that no
            // request of the acquire arrives after it.
            if self.acquires.get(&id).is_some_and(|sent| sent.is_undone) {
                self.reply(id, Err(failure::abandoned()));
            } else {
                self.flags.insert(id, alone);
                requests.push(Request { id, op, patience });
            }
        }
        self.send(&mut requests);
    }

    fn reply(&mut self, id: OpId, result: Result<Reply, Failure>) {
        // An acquire that failed but may have been carried out stays in `acquires`. Its entry later
        // shows on which connection the removal of the key must also be sent.
        if !matches!(&result, Err(failure) if failure.executed) {
            self.acquires.remove(&id);
        }
        self.events.push_back(StoreEvent::Reply(id, result));
    }

    fn connection_of(&mut self, generation: Generation) -> Option<&mut Connection> {
        let current = self
            .connection
            .as_mut()
            .filter(|connection| connection.generation == generation);
        current.or_else(|| {
            self.retired
                .iter_mut()
                .find(|connection| connection.generation == generation)
        })
    }

    /// Updates the connection according to the answer to a request.
    fn after(&mut self, result: &Result<Reply, Failure>, stamp: Stamp) {
        let Err(failure) = result else {
            self.supervisor.served();
            if let Some(connection) = self.connection_of(stamp.generation) {
                connection.found_script(stamp);
            }
            return;
        };
        match failure.code() {
            "NOSCRIPT" => self.script_missed(stamp),
            // Connects again: after a fail-over, the same address may lead to the new master.
            "READONLY" => self.supervisor.replace(),
            _ => {}
        }
    }

    fn script_missed(&mut self, stamp: Stamp) {
        let patience = self.io_timeout;
        let connection = self
            .connection
            .as_mut()
            .filter(|connection| connection.generation == stamp.generation);
        if let Some(connection) = connection {
            connection.missed_script(stamp, patience);
            self.unsent = true;
        }
    }

    /// Calls scripts by their hash again, because the user may not send the source. The requests of
    /// this batch fail.
    fn source_refused(&mut self, batch: Batch, stamp: Stamp) {
        if let Some(connection) = self.connection_of(stamp.generation) {
            connection.source_refused();
        }
        for request in batch {
            self.reply(request.id, Err(failure::forgotten()));
        }
    }

    /// Drops the connection if its server refused to load the scripts. The next attempt to connect
    /// loads them on another server, or reports the reason.
    fn scripts_loaded(&mut self, generation: Generation, answers: Vec<Value>) {
        if let Err(failure) = scripts::check_loaded(&scripts::missing(None), answers) {
            self.lost(generation, failure);
        }
    }
}

/// Records that an acquire is sent on the connection `generation`. For a removal, returns true if
/// all acquires that it undoes were sent on this connection. Otherwise, also returns another
/// connection on which one of them was sent, if any.
fn note(
    acquires: &mut IdMap<OpId, SentAcquire>,
    request: &Request,
    generation: Generation,
) -> (bool, Option<Generation>) {
    match &request.op {
        op if op.takes() => {
            let sent = SentAcquire {
                generation,
                is_undone: false,
            };
            acquires.insert(request.id, sent);
            (false, None)
        }
        Op::Give(Give { after, .. }) => {
            let mut undone = |open| {
                let sent = acquires.get_mut(open)?;
                sent.is_undone = true;
                Some(sent.generation)
            };
            let sent_on: Vec<_> = after.iter().map(&mut undone).collect();
            let ordered = sent_on.iter().all(|on| *on == Some(generation));
            let elsewhere = sent_on.into_iter().flatten().find(|on| *on != generation);
            (ordered, elsewhere)
        }
        _ => (false, None),
    }
}

/// Writes the commands for these batches, in order.
fn write(batches: &[Batch], names: &KeyNames, listening: bool, out: &mut Outgoing) {
    for batch in batches {
        let ops: OneOrMany<_> = batch.iter().map(|request| &request.op).collect();
        let flags = batch
            .first()
            .map_or_else(RequestFlags::default, |request| request.flags);
        if flags.asking {
            out.command("ASKING");
        }
        calls::batch_command(flags, &ops, names, listening, out);
    }
}
