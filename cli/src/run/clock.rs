//! The clock for leases, and an alarm on this clock.
//!
//! The clock is `CLOCK_BOOTTIME`. Like the leases at the store, it continues while the machine is
//! suspended. All processes of a machine read the same time from it, so that one process can send a
//! deadline to another.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// A point in time: the time since the machine started.
pub(super) type Moment = Duration;

pub(super) fn now() -> Moment {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

/// Converts a point in time to a number that fits into a message.
pub(super) fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX)
}

/// An alarm whose time can be changed. If this time passes while the machine is suspended, the
/// alarm rings as soon as the machine wakes up.
pub(super) struct Alarm {
    timer: AsyncFd<OwnedFd>,
}

impl Alarm {
    /// Creates an alarm that does not ring before it is set.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        #[allow(
            deprecated,
            reason = "`register` is unsafe: the file must stay open until it is deregistered, and an \
                      `OwnedFd` that this alarm never gives away does"
        )]
        let timer = AsyncFd::new(timer)?;
        Ok(Self { timer })
    }

    /// Makes the alarm ring at `at`. This replaces the previous time.
    pub(super) fn set(&self, at: Moment) -> io::Result<()> {
        // Zero would switch the alarm off.
        let at = at.max(Duration::from_nanos(1));
        let never = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let time = Itimerspec {
            it_interval: never,
            it_value: Timespec {
                tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(at.subsec_nanos()),
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time)?;
        Ok(())
    }

    /// Returns when the alarm has rung. Cancel safe.
    pub(super) async fn rings(&self) -> io::Result<()> {
        loop {
            let mut ready = self.timer.readable().await?;
            let read = ready.try_io(|timer| {
                let read = rustix::io::read(timer.get_ref(), &mut [0; 8]);
                read.map_err(io::Error::from)
            });
            if let Ok(rung) = read {
                return rung.map(drop);
            }
        }
    }
}
