//! What goes out over the connection, and what its answers mean.

use redis::{Cmd, Pipeline, Value, cmd};

use super::RedisStore;
use crate::base::seeded::seeded;
use crate::store::redis::commands::batch::{self, Batch, Batcher};
use crate::store::redis::commands::in_flight::InFlight;
use crate::store::redis::commands::redirect::{Redirect, RequestFlags};
use crate::store::redis::commands::{reply, script_sources, scripts};
use crate::store::redis::replication::{self, ReplicaAcks};
use crate::store::redis::wire::connection::{
    self, Connection, Content, Exchange, Generation, Stamp,
};
use crate::store::{Failure, Op, OpId, Reply, Request, StoreEvent};

impl RedisStore {
    /// All of them, in order.
    pub(super) fn send(&mut self, batch: &mut Vec<Request>) {
        let together = if self.names.in_cluster() {
            1
        } else {
            batch::MOST
        };
        let turns = self.names.have_companions() && !self.names.in_cluster();
        let Some(line) = &mut self.line else {
            if self.opening {
                self.held_back.append(batch);
            } else {
                self.refuse(batch);
            }
            return;
        };
        let (generation, listening) = (line.generation, line.listening);
        if self.waiting == Some(generation) {
            self.held_back.append(batch);
            return;
        }
        let mut patience = self.io_timeout;
        let mut batcher = Batcher::new(together, turns);
        batcher.make_room(batch.len());
        let mut concerns_copies = false;
        let mut stray = Vec::new();
        for request in batch.drain(..) {
            let manner = self.manners.remove(&request.id).unwrap_or_default();
            concerns_copies |= ReplicaAcks::concern(&request.op);
            patience = patience.min(request.patience);
            let mut ordered = false;
            match &request.op {
                Op::Acquire { .. } | Op::AcquireAll { .. } | Op::Join { .. } => {
                    self.acquires.insert(request.id, generation);
                }
                Op::Release { after, .. } | Op::Part { after, .. } => {
                    let places = || after.iter().map(|open| self.acquires.get(open).copied());
                    ordered = places().all(|place| place == Some(generation));
                    let elsewhere = places().flatten().find(|place| *place != generation);
                    let again =
                        |place| (place, scripts::command(&request.op, &self.names, listening));
                    stray.extend(elsewhere.map(again));
                }
                Op::Renew(_) | Op::Stay(_) | Op::Leave { .. } => {}
            }
            batcher.add(InFlight {
                id: request.id,
                op: request.op,
                manner,
                ordered,
                listening,
            });
        }
        let bundles = batcher.finish();
        let by_source = line.by_source();
        let mut pipeline = Pipeline::with_capacity(bundles.len() + 1);
        for bundle in &bundles {
            let ops: Vec<_> = bundle.iter().map(|sent| &sent.op).collect();
            let manner = bundle
                .first()
                .map_or_else(RequestFlags::default, |sent| sent.manner);
            if manner.asking {
                pipeline.add_command(cmd("ASKING"));
            }
            let command = scripts::together(manner, &ops, &self.names, listening);
            pipeline.add_command(if by_source {
                script_sources::by_source(&command)
            } else {
                command
            });
        }
        if let Some(replica_acks) = self.replica_acks.as_ref().filter(|_| concerns_copies) {
            pipeline.add_command(replica_acks.command(patience));
            self.waiting = Some(generation);
        }
        let content = Content::Requests(bundles);
        let batch = line.run(pipeline, content, patience);
        self.put(batch);
        for (generation, command) in stray {
            self.send_behind(generation, command);
        }
    }

    /// Sends what waited for the connection, if nothing holds it up any more.
    pub(super) fn send_held_back(&mut self) {
        if !self.held_back.is_empty() {
            let mut batch = std::mem::take(&mut self.held_back);
            self.send(&mut batch);
        }
    }

    /// Sends a removal on a silent connection as well, behind the acquire that is stuck on it: if the server reads
    /// that some day, it reads both.
    fn send_behind(&mut self, generation: Generation, command: Cmd) {
        if let Some(line) = self
            .retired
            .iter_mut()
            .find(|line| line.generation == generation)
        {
            let batch = line.send(command, self.io_timeout);
            self.put(batch);
        }
    }

    /// Answers at once that there is no connection.
    fn refuse(&mut self, batch: &mut Vec<Request>) {
        for request in batch.drain(..) {
            self.manners.remove(&request.id);
            let failure = self.reason.clone();
            self.events
                .push_back(StoreEvent::Reply(request.id, Err(failure)));
        }
        self.replace();
    }

    pub(super) fn answered(&mut self, batch: Exchange) {
        let stamp = batch.stamp;
        if let Some(line) = self.line_of(stamp.generation) {
            line.answered(&batch);
        }
        if self.waiting == Some(stamp.generation) && matches!(batch.content, Content::Requests(_)) {
            self.waiting = None;
        }
        match (batch.content, batch.answers) {
            (Content::Requests(bundles), Ok(answers)) => {
                self.requests_answered(bundles, answers, stamp);
            }
            (Content::Scripts, Ok(answers)) => self.scripts_loaded(stamp.generation, answers),
            (Content::Other, Ok(_)) => {}
            (content, Err(error)) => {
                let failure = reply::broken(&error);
                if let Content::Requests(bundles) = content {
                    for sent in bundles.into_iter().flatten() {
                        let released =
                            seeded!(CutIsAnswer) && matches!(sent.op, Op::Release { .. });
                        let answer = released.then_some(Reply::Released {
                            found: true,
                            ordered: true,
                        });
                        self.reply(sent.id, answer.ok_or_else(|| failure.clone()));
                    }
                }
                self.lost(stamp.generation, failure);
            }
        }
        self.retired.retain(|line| !line.is_quiet());
        self.send_held_back();
    }

    fn requests_answered(&mut self, bundles: Vec<Batch>, answers: Vec<Value>, stamp: Stamp) {
        let mut answers = connection::of_requests(&bundles, answers);
        // First of all, as what is sent now can still see which acquires went before it on this connection.
        self.send_held_back();
        // Behind the requests' answers there is that of the replicas, if they were asked.
        let replica_acks = answers.drain(bundles.len().min(answers.len())..).next();
        let mut requests = bundles.iter().flatten();
        let verdict = match &self.replica_acks {
            Some(judge) if requests.any(|sent| ReplicaAcks::concern(&sent.op)) => {
                judge.judge(replica_acks)
            }
            _ => Ok(()),
        };
        for (bundle, answer) in bundles.into_iter().zip(answers) {
            self.bundle_answered(bundle, answer, &verdict, stamp);
        }
    }

    fn bundle_answered(
        &mut self,
        bundle: Batch,
        answer: Value,
        verdict: &Result<(), Failure>,
        stamp: Stamp,
    ) {
        if stamp.by_source && script_sources::is_refused(&answer) {
            return self.source_refused(bundle, stamp);
        }
        if self.names.in_cluster()
            && let Some(redirect) = Redirect::read(&answer)
        {
            let redirects = bundle.iter().map(|sent| (sent.id, redirect.clone()));
            self.redirects.extend(redirects);
        }
        if bundle.len() > 1 && reply::may_concern_one_key(&answer) {
            self.send_apart(bundle);
            return;
        }
        let ops: Vec<_> = bundle.iter().map(|sent| &sent.op).collect();
        let replies = reply::read_all(&ops, answer, self.names.scripts());
        for (sent, reply) in bundle.into_iter().zip(replies) {
            let result = reply
                .map(|reply| sent.complete(reply))
                .and_then(|reply| replication::counted(reply, verdict));
            self.after(&result, stamp);
            if let (Op::Release { after, .. } | Op::Part { after, .. }, Ok(_)) = (&sent.op, &result)
            {
                self.settle(after);
            }
            self.reply(sent.id, result);
        }
    }

    /// Sends requests again that were refused together, each alone: only one of them may be to blame.
    fn send_apart(&mut self, bundle: Batch) {
        let patience = self.io_timeout;
        let alone = RequestFlags {
            alone: true,
            ..RequestFlags::default()
        };
        self.manners
            .extend(bundle.iter().map(|sent| (sent.id, alone)));
        let requests = bundle.into_iter().map(|sent| Request {
            id: sent.id,
            op: sent.op,
            patience,
        });
        self.send(&mut requests.collect());
    }

    fn reply(&mut self, id: OpId, result: Result<Reply, Failure>) {
        // An acquire that was carried out and does not count stays known, so that its removal can be seen to go behind it.
        if !matches!(&result, Err(failure) if failure.executed) {
            self.acquires.remove(&id);
        }
        self.events.push_back(StoreEvent::Reply(id, result));
    }

    fn line_of(&mut self, generation: Generation) -> Option<&mut Connection> {
        let current = self
            .line
            .as_mut()
            .filter(|line| line.generation == generation);
        current.or_else(|| {
            self.retired
                .iter_mut()
                .find(|line| line.generation == generation)
        })
    }

    /// What an answer means for the connection.
    fn after(&mut self, result: &Result<Reply, Failure>, stamp: Stamp) {
        let Err(failure) = result else {
            self.attempts = 0;
            if let Some(line) = self.line_of(stamp.generation) {
                line.found_script(stamp);
            }
            return;
        };
        match failure.code() {
            "NOSCRIPT" => self.script_missed(stamp),
            // Behind the same name there may be a master by now.
            "READONLY" => self.replace(),
            _ => {}
        }
    }

    fn script_missed(&mut self, stamp: Stamp) {
        let patience = self.io_timeout;
        let line = self
            .line
            .as_mut()
            .filter(|line| line.generation == stamp.generation);
        if let Some(load) = line.and_then(|line| line.missed_script(stamp, patience)) {
            self.put(load);
        }
    }

    /// The user may not send scripts by their source: they are called by their hash, as before.
    fn source_refused(&mut self, bundle: Batch, stamp: Stamp) {
        if let Some(line) = self.line_of(stamp.generation) {
            line.source_refused();
        }
        for sent in bundle {
            self.reply(sent.id, Err(reply::forgotten()));
        }
    }

    /// A server that refuses the scripts is of no use: connecting anew finds another one, or the reason.
    fn scripts_loaded(&mut self, generation: Generation, answers: Vec<Value>) {
        if let Err(failure) = scripts::check_loaded(answers) {
            self.lost(generation, failure);
        }
    }
}
