//! The part of `leasehold run` that holds the lock: starts the warden, which starts the guardian,
//! and sends each new deadline to the guardian.

use std::io::{self, IoSlice, stdin};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use leasehold::__private::is_taken_away;
use leasehold::LockHandle;
use rustix::cmsg_space;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, getpid, kill_process_group, set_child_subreaper};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::clock::{self, Alarm, Moment};
use super::family;
use super::messages::Messages;
use super::role::{self, Settings};
use super::schedule::{Reason, Schedule};
use super::signals::Signals;
use super::terminal::{self, Terminal};
use super::wire::{Channel, Notice, Order, bytes};
use crate::args::Run;
use crate::exit;

/// Time limit of a command without `--max-hold`: about 100 years, longer than any run, but short
/// enough to be added to a time.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    /// The exit code of the command.
    pub(super) code: u8,
    /// Reason for stopping the command, if it was stopped.
    pub(super) stopped: Option<Reason>,
}

/// A command that runs inside the lock.
pub(super) struct Supervisor<'a> {
    lock: LockHandle,
    options: &'a Run,
    messages: &'a Messages,
    warden: Pid,
    channel: Channel,
    alarm: Alarm,
    /// The guardian's schedule, computed again here. If the guardian stalls, this process kills the
    /// command.
    schedule: Schedule,
    command: Option<Pid>,
    terminal: Terminal,
    code: Option<u8>,
    /// True if the guardian has reported that nothing is left to do.
    done: bool,
}

impl<'a> Supervisor<'a> {
    /// Starts the warden, which starts the guardian, which starts the command.
    ///
    /// If this fails, the command does not start.
    pub(super) fn start(
        lock: LockHandle,
        options: &'a Run,
        signals: &Signals,
        messages: &'a Messages,
    ) -> io::Result<Self> {
        // Lets this process adopt the processes that the warden and the guardian leave when they
        // die.
        set_child_subreaper(Some(getpid()))?;
        // Fails if there is no `/proc`, which later lists the processes to kill.
        family::descendants(getpid())?;
        let alarm = Alarm::new()?;
        let (socket, theirs) = UnixStream::pair()?;
        let channel = Channel::new(socket)?;
        let mut warden = process(theirs, &lock, options, messages.json);
        let warden = role::pid(&signals.spawn(&mut warden)?)?;
        let deadline = deadline(&lock);
        // If this message cannot be sent, the guardian gets no deadline. It then starts no command,
        // and ends when the connection is closed.
        begin(&channel, deadline)?;
        Ok(Self {
            lock,
            options,
            messages,
            warden,
            channel,
            alarm,
            schedule: Schedule::new(options.ttl, deadline),
            command: None,
            terminal: Terminal::default(),
            code: None,
            done: false,
        })
    }

    /// Returns when the guardian is done. If it is dead or too late, kills all processes first.
    pub(super) async fn watch(mut self, signals: &mut Signals) -> Ended {
        if let Err(error) = self.attend(signals).await {
            self.messages.failed(&error);
        }
        if !self.done {
            if self.schedule.reason().is_none() && self.command.is_some() {
                self.messages.unguarded();
            }
            self.kill_all().await;
        }
        if let Some(command) = self.command {
            self.terminal.take_back(command);
        }
        // Either the guardian has nothing left to do, or `kill_all` has killed everything below
        // this process, and collected the status of the warden, too. So the warden is no longer
        // needed.
        family::end_child(self.warden);
        // Without a command, the guardian could not start it.
        let without_code = match self.command {
            Some(_) => exit::of(None, Some(Signal::KILL.as_raw())),
            None => exit::SYSTEM,
        };
        Ended {
            code: self.code.unwrap_or(without_code),
            stopped: self.schedule.reason(),
        }
    }

    /// Returns when the guardian is done or dead, or has not killed the command in time.
    async fn attend(&mut self, signals: &mut Signals) -> io::Result<()> {
        let max_hold = self.options.max_hold.unwrap_or(FOR_EVER);
        let max_hold = Instant::now() + max_hold.min(FOR_EVER);
        let lock = self.lock.clone();
        let mut ticks = interval(self.options.ttl / 20);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut lost = false;
        loop {
            self.alarm.set(self.schedule.backup_at())?;
            let stopped = self.schedule.reason().is_some();
            tokio::select! {
                biased;
                notice = self.channel.next() => match notice {
                    Some(Notice::Done) => {
                        self.done = true;
                        return Ok(());
                    }
                    Some(notice) => self.receive(notice),
                    None => return Ok(()),
                },
                signal = signals.next() => self.pass_on(signal),
                _ = ticks.tick() => self.send_deadline(),
                // Also during the grace of another stop, which a loss shortens.
                () = lock.lost(), if !lost => {
                    lost = true;
                    self.stop(loss(&lock));
                }
                () = sleep_until(max_hold), if !stopped => self.stop(Reason::MaxHold),
                rung = self.alarm.rings() => {
                    rung?;
                    if self.schedule.backup_at() <= clock::now() {
                        self.stop(Reason::Lost);
                        return Ok(());
                    }
                }
            }
        }
    }

    fn receive(&mut self, notice: Notice) {
        match notice {
            Notice::Started(id) => {
                self.command = Pid::from_raw(id);
                self.give_terminal();
            }
            Notice::Suspended(signal) => {
                if let (Some(id), Some(signal)) = (self.command, Signal::from_named_raw(signal)) {
                    self.terminal.suspended(id, signal);
                }
            }
            // The guardian stops the command on its own only if the lease is not renewed.
            Notice::Stopping(reason) => {
                if self.schedule.expire() {
                    self.messages.stopping(self.options, reason);
                }
            }
            Notice::Ended(code) => self.code = Some(code),
            Notice::Left(count) => {
                if self.schedule.reason().is_none() {
                    self.messages.left(count);
                }
            }
            Notice::Refused(count) => self.messages.refused(count),
            Notice::Done => self.done = true,
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        self.channel.send(Order::Signal(signal.as_raw()));
        match signal {
            Signal::TSTP => terminal::stand_still(),
            Signal::CONT => self.give_terminal(),
            _ => {}
        }
    }

    fn give_terminal(&mut self) {
        if let Some(command) = self.command {
            self.terminal.give_to(command);
        }
    }

    /// Sends the deadline to the guardian if the lease was renewed.
    fn send_deadline(&mut self) {
        let deadline = deadline(&self.lock);
        if self.schedule.extend(deadline) {
            self.channel.send(Order::Deadline(deadline));
        }
    }

    fn stop(&mut self, reason: Reason) {
        self.channel.send(Order::Stop(reason));
        if self.schedule.stop(reason, clock::now()) {
            self.messages.stopping(self.options, reason);
        }
    }

    /// Kills all processes below this one, including the warden and the guardian.
    async fn kill_all(&self) {
        if let Err(error) = family::end_descendants().await {
            // Kills at least the process group of the command. A living guardian keeps the id of
            // the group in use, so that no other process is killed. If the guardian is dead, the
            // kernel has already killed the command.
            let _ = self.command.map(|id| kill_process_group(id, Signal::KILL));
            self.messages.failed(&error);
        }
    }
}

/// Returns the time at which the lease ends unless it is renewed. Reads the clock first, so that
/// the returned time is not too late.
fn deadline(lock: &LockHandle) -> Moment {
    let now = clock::now();
    now + lock.remaining()
}

fn loss(lock: &LockHandle) -> Reason {
    if is_taken_away(lock) {
        Reason::TakenAway
    } else {
        Reason::Lost
    }
}

/// Returns the command line of the warden, with the environment that the command will have.
fn process(socket: UnixStream, lock: &LockHandle, options: &Run, json: bool) -> Command {
    let settings = Settings::new(options.ttl, json);
    let mut warden = role::process(role::WARDEN, settings, &options.command);
    warden
        .env("LEASEHOLD_KEY", &options.key)
        .stdin(OwnedFd::from(socket));
    match lock.fence() {
        Some(fence) => warden.env("LEASEHOLD_FENCE", fence.get().to_string()),
        // This lock has no fence. An inherited variable would contain the fence of another lock,
        // inside which `leasehold run` itself was started.
        None => warden.env_remove("LEASEHOLD_FENCE"),
    };
    if options.without_url {
        warden.env_remove("LEASEHOLD_URL");
    }
    warden
}

/// Sends the guardian the deadline, and the standard input of the command.
fn begin(channel: &Channel, deadline: Moment) -> io::Result<()> {
    let input = stdin();
    let files = [input.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    let message = bytes(Order::Deadline(deadline));
    sendmsg(
        channel,
        &[IoSlice::new(&message)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}
