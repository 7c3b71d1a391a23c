//! A system timer that wakes the runtime in the same way as a socket.
//!
//! tokio's own timer counts in whole milliseconds, but many of the measured times are shorter than
//! a millisecond. This timer wakes the runtime through its poll for I/O, like a request that
//! arrives from the network.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;

#[cfg(target_os = "linux")]
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};

use crate::clock;

#[cfg(target_os = "linux")]
pub(super) struct Alarm(AsyncFd<OwnedFd>);

#[cfg(target_os = "linux")]
impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[allow(
            deprecated,
            reason = "unsound for what changes its descriptor, which an OwnedFd does not; its successor is unsafe to call"
        )]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(Self(timer))
    }

    /// Waits until `clock::now` reaches `stamp`. Returns at once if this time has passed.
    pub(super) async fn until(&self, stamp: u64) -> io::Result<()> {
        while clock::now() < stamp {
            let once = Itimerspec {
                it_interval: timespec(0),
                it_value: timespec(stamp),
            };
            // An expired timer stays readable until it is read or set. It is set before each wait,
            // so it need not be read.
            timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once)?;
            self.0.readable().await?.clear_ready();
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn timespec(stamp: u64) -> Timespec {
    Timespec::try_from(std::time::Duration::from_nanos(stamp)).unwrap_or_default()
}

/// The alarm on systems other than Linux. It uses tokio's timer, in whole milliseconds.
#[cfg(not(target_os = "linux"))]
pub(super) struct Alarm;

#[cfg(not(target_os = "linux"))]
impl Alarm {
    #[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    pub(super) async fn until(&self, stamp: u64) -> io::Result<()> {
        while clock::now() < stamp {
            tokio::time::sleep(clock::until(stamp)).await;
        }
        Ok(())
    }
}
