//! A process that takes locks with the Java library Curator:
//! `tests/zookeeper/src/CuratorPeer.java`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::java;
use crate::clock;
use crate::process::Leashed;
use crate::recorder::Section;

/// Time limits for the process: from its start to its connection, and from the end of its working
/// time to its exit.
const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(60);

/// The job of a process.
#[derive(Debug, Clone)]
pub struct Errand {
    /// The servers, in the format of ZooKeeper's own clients.
    pub servers: String,
    /// The path of the lock.
    pub path: String,
    /// The session's timeout.
    pub session: Duration,
    /// Total time for which the process takes the lock again and again.
    pub time: Duration,
    /// Time inside the lock.
    pub stay: Duration,
    /// Pause between two sections.
    pub pause: Duration,
}

/// A running process. Dropping it kills the process.
#[derive(Debug)]
pub struct CuratorPeer {
    process: Leashed,
    lines: Receiver<String>,
    key: String,
    sections: Vec<Section>,
    lost: u32,
    /// Microseconds by which `clock::now` is ahead of `CLOCK_MONOTONIC`, the clock that Java can
    /// read.
    ahead: u64,
}

impl CuratorPeer {
    /// Starts a process, and returns once it has connected.
    ///
    /// # Panics
    ///
    /// Panics if the process does not connect.
    pub fn start(errand: &Errand) -> Self {
        let millis = |span: Duration| span.as_millis().to_string();
        let mut child = java::command(&[], "CuratorPeer")
            .args([&errand.servers, &errand.path])
            .args([errand.session, errand.time, errand.stay, errand.pause].map(millis))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| java::missing(&format!("the program java ({error})")));
        let output = child.stdout.take().expect("standard output is piped");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let peer = Self {
            process: Leashed::new(child, None),
            lines,
            key: errand.path.clone(),
            sections: Vec::new(),
            lost: 0,
            ahead: ahead(),
        };
        let first = peer.lines.recv_timeout(START);
        assert!(
            first.as_ref().is_ok_and(|line| line.starts_with("ready ")),
            "CuratorPeer does not connect: {first:?}"
        );
        peer
    }

    /// Waits until the process reports that it has begun a section inside the lock.
    ///
    /// # Panics
    ///
    /// Panics if the process reports nothing for `limit`, or ends first.
    pub fn wait_inside(&mut self, limit: Duration) {
        loop {
            let line = self.lines.recv_timeout(limit);
            let line = line.unwrap_or_else(|error| panic!("CuratorPeer is not inside: {error}"));
            if self.take(&line) == "begin" {
                return;
            }
        }
    }

    /// Kills the process and returns its sections. An unfinished section ends at the time of the
    /// kill.
    ///
    /// # Panics
    ///
    /// Panics if the process reported an unknown event.
    pub fn kill(mut self) -> Vec<Section> {
        self.process.kill();
        let killed = clock::now();
        while let Ok(line) = self.lines.recv_timeout(END) {
            self.take(&line);
        }
        for section in self.sections.iter_mut().filter(|it| it.left.is_none()) {
            section.left = Some(killed);
        }
        self.sections
    }

    /// Waits for the end of the process. Returns its sections, and the number of sections that the
    /// process abandoned because the lock might have been lost.
    ///
    /// # Panics
    ///
    /// Panics if the process does not end, or ends with an error.
    pub fn finish(mut self, time: Duration) -> (Vec<Section>, u32) {
        loop {
            let line = self.lines.recv_timeout(time + END);
            let line = line.unwrap_or_else(|error| panic!("CuratorPeer does not end: {error}"));
            if self.take(&line) == "done" {
                break;
            }
        }
        let status = self
            .process
            .child()
            .wait()
            .expect("a child can be waited for");
        assert!(status.success(), "CuratorPeer: {status}");
        (self.sections, self.lost)
    }

    /// Records an event from a line of output. Returns the event's name.
    fn take<'a>(&mut self, line: &'a str) -> &'a str {
        let (event, stamp) = line.split_once(' ').expect("an event and its stamp");
        let stamp: u64 = stamp.parse().expect("a number");
        let at = stamp / 1_000 + self.ahead;
        match event {
            "begin" => self.sections.push(Section {
                key: self.key.clone(),
                fence: None,
                entered: at,
                left: None,
                // Curator does not report the end of its lease.
                deadline: u64::MAX,
            }),
            "end" | "lost" => {
                let section = self.sections.last_mut().expect("it has begun");
                section.left = Some(at);
                self.lost += u32::from(event == "lost");
            }
            "done" => {}
            other => panic!("CuratorPeer printed {other}"),
        }
        event
    }
}

/// Measures how far `clock::now` is ahead of `CLOCK_MONOTONIC`, in microseconds. Of several
/// measurements, uses the one that took the shortest time, because it is the most exact.
fn ahead() -> u64 {
    let readings = (0..100).map(|_| {
        let (before, ours, after) = (monotonic(), clock::now(), monotonic());
        (after - before, ours.saturating_sub(before))
    });
    readings.min().map_or(0, |(_, ahead)| ahead)
}

fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000 + nanos / 1_000
}
