//! The guardian of a command: ends the command, and everything that the command has started, before
//! the lease ends.
//!
//! The guardian needs no lock store. It ends after the command, and after all processes that the
//! command left in its session.

use std::ffi::OsString;
use std::io::{self, IoSliceMut, stdin};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process_group, setpgid, wait,
    waitid, waitpid,
};
use tokio::signal::unix::{self, SignalKind};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::clock::{self, Alarm, Moment};
use super::family::{self, Killed, ROUND};
use super::role::{self, Settings};
use super::schedule::{Reason, Schedule, Step};
use super::signals::Signals;
use super::wire::{Channel, Notice, Order, message};
use crate::exit;

/// Interval between two checks for processes that the command has left behind.
const LOOK: Duration = Duration::from_secs(1);

/// Signals that ask a program to end. A suspended command must continue to handle them.
const TERMINATING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// Starts the command, and guards it. `leasehold run` is at the other end of standard input.
pub(super) async fn guard(settings: Settings, command: Vec<OsString>) -> io::Result<()> {
    // Moves to a separate process group, which ctrl-c at the terminal and a kill of the group of
    // `leasehold run` do not reach.
    setpgid(None, None)?;
    let mut signals = Signals::all()?;
    // The handler of SIGCHLD is set before the command starts, because the command may end at once.
    let children = unix::signal(SignalKind::child())?;
    role::adopt_orphans(settings)?;
    let socket = UnixStream::from(stdin().as_fd().try_clone_to_owned()?);
    let (deadline, input) = receive(&socket)?;
    let schedule = Schedule::new(settings.moment, deadline);
    let settings = Settings {
        moment: schedule.terminates_at(),
        ..settings
    };
    let command = start(&signals, settings, &command, input)?;
    let mut guardian = Guardian::new(socket, schedule, command)?;
    guardian.watch(&mut signals, children).await
}

/// Starts the command as the first process of its group.
fn start(
    signals: &Signals,
    settings: Settings,
    command: &[OsString],
    input: OwnedFd,
) -> io::Result<Pid> {
    let mut launcher = role::process(role::LAUNCHER, settings, command);
    let launcher = launcher.stdin(input).process_group(0);
    role::pid(&signals.spawn(launcher)?)
}

/// Receives the first message: the deadline, and the standard input of the command.
fn receive(socket: &UnixStream) -> io::Result<(Moment, OwnedFd)> {
    let mut bytes = [0; 9];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut inputs = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    match (message(bytes), inputs.next()) {
        (Some(Order::Deadline(deadline)), Some(input)) => Ok((deadline, input)),
        _ => Err(io::Error::other("`leasehold run` is gone")),
    }
}

struct Guardian {
    channel: Channel,
    /// True while `leasehold run` is at the other end of the channel.
    attended: bool,
    schedule: Schedule,
    /// Process id of the command. It is also the id of the command's process group.
    command: Pid,
    /// Id of the session in which the command began.
    session: i32,
    ended: bool,
    /// Reason for stopping the command, as reported to `leasehold run`; `None` before the report.
    reported: Option<Reason>,
    /// Number of processes left by the command, as reported to `leasehold run`; `None` before the
    /// report.
    left: Option<usize>,
    refused: usize,
    killing: bool,
    /// Number of ended processes in the last list. If there was any, the list may be incomplete,
    /// and another one must follow soon.
    reaped: usize,
}

impl Guardian {
    /// Creates the guardian of a running command.
    fn new(socket: UnixStream, schedule: Schedule, command: Pid) -> io::Result<Self> {
        let guardian = Self {
            channel: Channel::new(socket)?,
            attended: true,
            schedule,
            command,
            session: family::this_process()?.session,
            ended: false,
            reported: None,
            left: None,
            refused: 0,
            killing: false,
            reaped: 0,
        };
        let started = command.as_raw_nonzero().get();
        guardian.channel.send(Notice::Started(started));
        Ok(guardian)
    }

    /// Returns after the end of the command, and of all processes that it left in its session.
    async fn watch(&mut self, signals: &mut Signals, mut children: unix::Signal) -> io::Result<()> {
        let alarm = Alarm::new()?;
        let (mut round, mut look) = (interval(ROUND), interval(LOOK));
        round.set_missed_tick_behavior(MissedTickBehavior::Skip);
        look.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            alarm.set(self.schedule.next())?;
            tokio::select! {
                biased;
                _ = round.tick(), if self.killing => {}
                rung = alarm.rings(), if !self.killing => rung?,
                order = self.channel.next(), if self.attended => self.obey(order),
                _ = children.recv() => self.reap_adopted(),
                // Ignored: the command receives these signals from `leasehold run`.
                _ = signals.next() => continue,
                _ = look.tick(), if self.ended => {}
                () = sleep(ROUND), if self.reaped > 0 => {}
            }
            self.act()?;
            if self.is_done()? {
                break;
            }
        }
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        self.channel.send(Notice::Done);
        Ok(())
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Deadline(deadline)) => {
                self.schedule.extend(deadline);
            }
            Some(Order::Signal(signal)) => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    self.signal(signal);
                    // A suspended process handles such a signal only after it continues.
                    if TERMINATING.contains(&signal) {
                        self.signal(Signal::CONT);
                    }
                }
            }
            Some(Order::Stop(reason)) => self.stop(reason),
            None => {
                self.attended = false;
                self.stop(Reason::Orphaned);
            }
        }
    }

    /// Reads the messages that have already arrived, and obeys those with a deadline. While this
    /// process was suspended, the known deadline may have passed, and a message may have extended
    /// it. Returns the other messages.
    fn read_queued(&mut self) -> Vec<Order> {
        let mut others = Vec::new();
        while let Some(order) = self.channel.queued() {
            match order {
                Order::Deadline(_) => self.obey(Some(order)),
                _ => others.push(order),
            }
        }
        others
    }

    fn stop(&mut self, reason: Reason) {
        let now = clock::now();
        if self.schedule.stop(reason, now) && now < self.schedule.kills_at() {
            self.terminate();
        }
    }

    /// Performs the due step, and reports changes to `leasehold run`. Reads the clock before the
    /// messages. A deadline that passes between the two counts only in the next call, which reads
    /// newer messages first. A due kill comes before a message that would let the command continue.
    fn act(&mut self) -> io::Result<()> {
        self.look_at_the_command()?;
        let now = clock::now();
        let others = self.read_queued();
        match self.schedule.due(now) {
            Some(Step::Terminate) => self.terminate(),
            Some(Step::Kill) => self.kill()?,
            None => {}
        }
        for order in others {
            self.obey(Some(order));
        }
        if let Some(reason) = self.schedule.reason().filter(|_| self.reported.is_none()) {
            self.reported = Some(reason);
            self.channel.send(Notice::Stopping(reason));
        }
        Ok(())
    }

    fn terminate(&self) {
        self.signal(Signal::TERM);
        // A suspended process handles SIGTERM only after it continues.
        self.signal(Signal::CONT);
    }

    fn kill(&mut self) -> io::Result<()> {
        self.killing = true;
        self.signal(Signal::KILL);
        let Killed { refused, .. } = family::kill_descendants(getpid())?;
        if self.refused < refused {
            self.refused = refused;
            self.channel.send(Notice::Refused(refused as u64));
        }
        Ok(())
    }

    /// Sends a signal to the process group of the command. The signal cannot reach another group:
    /// until the guardian collects the status of the command, no other group can get this id.
    fn signal(&self, signal: Signal) {
        // An error means that the group has no process.
        let _ = kill_process_group(self.command, signal);
    }

    /// Reports the end or a suspension of the command. An ended command stays a zombie, so that no
    /// other process or group gets its id.
    fn look_at_the_command(&mut self) -> io::Result<()> {
        if self.ended {
            return Ok(());
        }
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        if let Some(status) = waitid(WaitId::Pid(self.command), ended)? {
            self.ended = true;
            let code = exit::of(status.exit_status(), status.terminating_signal());
            self.channel.send(Notice::Ended(code));
            return Ok(());
        }
        let suspended = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        // An error means that the command has just ended.
        if let Ok(Some(status)) = waitid(WaitId::Pid(self.command), suspended)
            && let Some(signal) = status.stopping_signal()
        {
            self.channel.send(Notice::Suspended(signal));
        }
        Ok(())
    }

    /// True after the end of the command, and of all processes that it left in its session. A
    /// process in another session is a service that outlives the command on purpose. But if the
    /// command was stopped, such a process must have ended, too.
    fn is_done(&mut self) -> io::Result<bool> {
        if !self.ended {
            return Ok(false);
        }
        let stopped = self.schedule.reason().is_some();
        let family = family::descendants(getpid())?;
        // A process that starts another one and ends while the processes are listed can hide the
        // other one.
        self.reaped = self.reap(&family);
        let counts = |process: &&family::Process| {
            !process.ended && (stopped || process.session == self.session)
        };
        let left = family.iter().filter(counts).count();
        if left > 0 && self.left.is_none() {
            self.left = Some(left);
            self.channel.send(Notice::Left(left as u64));
        }
        Ok(left == 0 && self.reaped == 0)
    }

    /// Collects the status of the ended processes that the guardian has adopted. Otherwise they
    /// would stay zombies. An error only delays this until the next process ends.
    fn reap_adopted(&self) {
        if let Ok(family) = family::descendants(getpid()) {
            self.reap(&family);
        }
    }

    /// Collects the status of ended processes. Returns their number.
    fn reap(&self, family: &[family::Process]) -> usize {
        let us = getpid().as_raw_nonzero().get();
        let ours = family
            .iter()
            .filter(|process| process.ended && process.parent == us);
        let adopted = ours.filter_map(|process| Pid::from_raw(process.id));
        let adopted = adopted.filter(|pid| *pid != self.command);
        let reaped =
            adopted.filter(|pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(Some(_))));
        reaped.count()
    }
}
