//! Runs the requests for one key one after the other, in the order of their arrival.
//!
//! A server carries out the requests of one connection concurrently, so this module keeps the
//! order. A request begins when all earlier requests for any of its keys are over.

use std::collections::{HashMap, VecDeque};

use crate::base::full_key::{FullKey, KeyMap};

/// Identifies a job: a request, or internal work such as the end of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct JobId(u64);

/// The jobs that run or wait. Each key has a lane, the queue of its jobs.
#[derive(Debug)]
pub(super) struct Lanes<J> {
    by_key: KeyMap<VecDeque<JobId>>,
    waiting: HashMap<JobId, Waiting<J>>,
    last: u64,
}

#[derive(Debug)]
struct Waiting<J> {
    job: J,
    keys: Vec<FullKey>,
    /// Number of the job's keys for which an earlier job still runs or waits.
    behind: usize,
}

/// A job that may run. The caller must [`leave`](Lanes::leave) the job's keys when the job is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Running<J> {
    pub(super) id: JobId,
    pub(super) job: J,
    pub(super) keys: Vec<FullKey>,
}

impl<J> Default for Lanes<J> {
    fn default() -> Self {
        Self {
            by_key: KeyMap::default(),
            waiting: HashMap::new(),
            last: 0,
        }
    }
}

impl<J> Lanes<J> {
    /// Appends `job` to the queue of each of its keys. Returns the job if it may run now.
    pub(super) fn enter(&mut self, job: J, asked: Vec<FullKey>) -> Option<Running<J>> {
        self.last += 1;
        let id = JobId(self.last);
        // A key listed twice would make the job wait for itself.
        let mut keys = Vec::with_capacity(asked.len());
        for key in asked {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let mut behind = 0;
        for key in &keys {
            let lane = self.by_key.entry(key.clone()).or_default();
            behind += usize::from(!lane.is_empty());
            lane.push_back(id);
        }
        if behind == 0 {
            return Some(Running { id, job, keys });
        }
        self.waiting.insert(id, Waiting { job, keys, behind });
        None
    }

    /// Removes the finished job `id`. Returns the jobs that may run now.
    pub(super) fn leave(&mut self, id: JobId, keys: &[FullKey]) -> Vec<Running<J>> {
        let mut ready = Vec::new();
        for key in keys {
            let Some(lane) = self.by_key.get_mut(key) else {
                continue;
            };
            lane.retain(|other| *other != id);
            let Some(next) = lane.front().copied() else {
                self.by_key.remove(key);
                continue;
            };
            let Some(waiting) = self.waiting.get_mut(&next) else {
                continue;
            };
            waiting.behind -= 1;
            if waiting.behind == 0
                && let Some(Waiting { job, keys, .. }) = self.waiting.remove(&next)
            {
                ready.push(Running {
                    id: next,
                    job,
                    keys,
                });
            }
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &str) -> Vec<FullKey> {
        let names = names.split_whitespace();
        names.map(FullKey::from).collect()
    }

    fn over(lanes: &mut Lanes<u32>, running: &Running<u32>) -> Vec<Running<u32>> {
        lanes.leave(running.id, &running.keys)
    }

    #[test]
    fn jobs_of_one_key_run_in_order() {
        let mut lanes = Lanes::default();
        let first = lanes.enter(1, keys("a")).expect("the lane is empty");
        assert_eq!(lanes.enter(2, keys("a")), None);
        assert_eq!(lanes.enter(3, keys("a")), None);
        let other = lanes.enter(4, keys("b")).expect("another lane");
        assert!(over(&mut lanes, &other).is_empty());
        let second = over(&mut lanes, &first);
        assert_eq!(second.iter().map(|next| next.job).collect::<Vec<_>>(), [2]);
        let third = over(&mut lanes, &second[0]);
        assert_eq!(third.iter().map(|next| next.job).collect::<Vec<_>>(), [3]);
        assert!(over(&mut lanes, &third[0]).is_empty());
        assert!(lanes.by_key.is_empty() && lanes.waiting.is_empty());
    }

    #[test]
    fn a_job_of_several_keys_waits_for_all_of_them() {
        let mut lanes = Lanes::default();
        let a = lanes.enter(1, keys("a")).expect("free");
        let b = lanes.enter(2, keys("b")).expect("free");
        assert_eq!(lanes.enter(3, keys("b c a b")), None);
        assert_eq!(lanes.enter(4, keys("c")), None, "it came later");
        assert!(over(&mut lanes, &a).is_empty(), "b is taken");
        let both = over(&mut lanes, &b);
        assert_eq!(both.iter().map(|next| next.job).collect::<Vec<_>>(), [3]);
        let last = over(&mut lanes, &both[0]);
        assert_eq!(last.iter().map(|next| next.job).collect::<Vec<_>>(), [4]);
        assert!(over(&mut lanes, &last[0]).is_empty());
        assert!(lanes.by_key.is_empty() && lanes.waiting.is_empty());
    }

    #[test]
    fn a_job_without_keys_does_not_wait() {
        let mut lanes = Lanes::default();
        let _held = lanes.enter(1, keys("a"));
        let renewal = lanes.enter(2, Vec::new()).expect("it has no lane");
        assert!(over(&mut lanes, &renewal).is_empty());
    }
}
