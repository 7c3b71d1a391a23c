//! `leasehold run`: runs any program inside a lock.
//!
//! [`role`] has a picture of the four processes, and lists the effects if one of them dies or
//! stalls.

mod clock;
mod family;
mod guardian;
mod launcher;
mod messages;
mod name;
mod role;
mod schedule;
mod signals;
mod start;
mod supervisor;
mod terminal;
mod warden;
mod wire;

use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use leasehold::__private::named;
use leasehold::{LockError, LockGuard, LockPool};
use rustix::process::Signal;

use self::messages::Messages;
use self::schedule::Reason;
use self::signals::Signals;
use self::supervisor::Supervisor;
use crate::args::{Run, Store};
use crate::exit;
use crate::failure::Failure;

/// Shortest ttl. The processes of a command are killed when a tenth of the ttl is left before the
/// deadline, and must end within this tenth.
const SHORTEST_TTL: Duration = Duration::from_secs(1);

/// Maximum time to wait until the store confirms the release.
const RELEASE: Duration = Duration::from_secs(2);

/// Runs this process to its end if it was started in the role of a warden, guardian or launcher.
pub(crate) fn in_role(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let role = arguments.nth(1)?;
    let settings = role::parse(arguments.next()?.to_str()?)?;
    let command: Vec<OsString> = arguments.collect();
    let code = match role.to_str()? {
        role::WARDEN => role::run(settings.json, warden::watch_over(settings, command)),
        role::GUARDIAN => role::run(settings.json, guardian::guard(settings, command)),
        role::LAUNCHER => launcher::launch(&settings, &command),
        _ => return None,
    };
    Some(ExitCode::from(code))
}

/// Takes the lock, runs the command inside it, and returns the exit code.
pub(crate) async fn run(store: &Store, options: &Run, json: bool) -> u8 {
    let messages = Messages::new(json);
    let ended = connect_and_run(store, options, &messages).await;
    ended.unwrap_or_else(|failure| {
        failure.print(json);
        without_run(failure.code, &messages)
    })
}

async fn connect_and_run(store: &Store, options: &Run, messages: &Messages) -> Result<u8, Failure> {
    check(options)?;
    let mut signals = Signals::ending()?;
    let pool = tokio::select! {
        biased;
        signal = signals.next() => return Ok(without_run(of_signal(signal), messages)),
        pool = store.connect() => pool?,
    };
    let code = take_and_run(&pool, options, signals, messages).await;
    // The pool is shut down even after a failed acquire. If the request for the lock got no answer,
    // the store may have granted the lock, which the shutdown then removes.
    pool.shutdown(RELEASE).await;
    code
}

fn check(options: &Run) -> Result<(), Failure> {
    let ttl = options.ttl;
    if ttl < SHORTEST_TTL {
        let text =
            format!("a --ttl of {ttl:?} leaves processes too little time to end; use at least 1s");
        return Err(Failure::usage(text));
    }
    match options.max_hold {
        Some(max_hold) if max_hold < ttl => Err(Failure::usage(format!(
            "a --max-hold of {max_hold:?} is shorter than the --ttl of {ttl:?}; use at least the \
             ttl"
        ))),
        _ => Ok(()),
    }
}

async fn take_and_run(
    pool: &LockPool,
    options: &Run,
    mut signals: Signals,
    messages: &Messages,
) -> Result<u8, Failure> {
    let asked = Instant::now();
    let mut request = named(pool.lock(&options.key), name::site(options))
        .ttl(options.ttl)
        .wait(options.wait)
        .watchdog();
    if let Some(min_hold) = options.min_hold {
        request = request.min_hold(min_hold);
    }
    let guard = tokio::select! {
        biased;
        signal = signals.next() => return Ok(without_run(of_signal(signal), messages)),
        guard = request.acquire() => guard.map_err(not_taken),
    };
    let guard = match guard {
        Err(failure) if failure.code == exit::HELD && options.quiet => return Ok(exit::HELD),
        guard => guard?,
    };
    messages.acquired(&guard, asked.elapsed());
    inside(guard, options, signals.and_terminal()?, messages).await
}

/// Converts the error of an acquire. If the lease was over before its grant arrived, the command
/// did not run, so the lock counts as held elsewhere.
fn not_taken(error: LockError) -> Failure {
    let mut failure = Failure::from(error);
    if failure.code == exit::LOST {
        failure.code = exit::HELD;
    }
    failure
}

async fn inside(
    guard: LockGuard,
    options: &Run,
    mut signals: Signals,
    messages: &Messages,
) -> Result<u8, Failure> {
    // The lock must not be released before the command is gone. So if this process panics before
    // that, the guard is not dropped, and the lock stays until its ttl ends.
    let guard = ManuallyDrop::new(guard);
    let ended = match Supervisor::start(guard.handle(), options, &signals, messages) {
        Ok(supervisor) => Ok(supervisor.watch(&mut signals).await),
        Err(error) => Err(error),
    };
    let released = ManuallyDrop::into_inner(guard).release().await;
    let ended = ended?;
    let reported = ended.stopped.is_some_and(Reason::is_loss);
    let lost = released.is_err() || reported;
    if lost && !reported {
        messages.gone(&options.key);
    }
    let code = match ended.code {
        exit::SUCCESS if lost => exit::LOST,
        code => code,
    };
    messages.ended(code, lost);
    Ok(code)
}

/// Reports the end of a run whose command did not start, and returns the exit code.
fn without_run(code: u8, messages: &Messages) -> u8 {
    messages.ended(code, false);
    code
}

fn of_signal(signal: Signal) -> u8 {
    exit::of(None, Some(signal.as_raw()))
}
