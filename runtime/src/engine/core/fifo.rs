//! The list of the tickets that wait for one key.

use std::collections::{HashSet, VecDeque};
use std::mem;

use super::ticket::TicketId;

/// Tickets in the order of their arrival; a ticket is pushed at most once. A single ticket, the
/// usual case of an uncontended lock, takes no heap memory.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    /// The first ticket. None only if the queue is empty.
    first: Option<TicketId>,
    rest: Option<Box<Rest>>,
}

/// The tickets after the first.
///
/// A ticket removed from the middle stays in `places`, but not in `present`. Such empty places are
/// removed only when they make up more than half of `places`. So if all calls of a long queue are
/// dropped, all removals together take linear time.
#[derive(Debug, Default)]
struct Rest {
    places: VecDeque<TicketId>,
    /// The tickets of `places` that still wait.
    present: HashSet<TicketId>,
}

impl Fifo {
    pub(super) fn front(&self) -> Option<&TicketId> {
        self.first.as_ref()
    }

    pub(super) fn push_back(&mut self, ticket: TicketId) {
        if self.first.is_none() {
            self.first = Some(ticket);
        } else {
            let rest = self.rest.get_or_insert_default();
            rest.places.push_back(ticket);
            rest.present.insert(ticket);
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<TicketId> {
        let next = self.rest.as_mut().and_then(|rest| rest.pop_front());
        mem::replace(&mut self.first, next)
    }

    /// Removes a ticket, if the queue has it.
    pub(super) fn remove(&mut self, ticket: TicketId) {
        if self.first == Some(ticket) {
            self.pop_front();
        } else if let Some(rest) = &mut self.rest {
            rest.remove(ticket);
        }
    }

    pub(super) fn retain(&mut self, mut stays: impl FnMut(&TicketId) -> bool) {
        let first_stays = self.first.as_ref().is_none_or(&mut stays);
        if let Some(rest) = &mut self.rest {
            rest.retain(stays);
        }
        if !first_stays {
            self.pop_front();
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TicketId> {
        let rest = self.rest.iter().flat_map(|rest| rest.iter());
        self.first.iter().chain(rest)
    }

    pub(super) fn len(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.present.len());
        usize::from(self.first.is_some()) + rest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl Rest {
    fn pop_front(&mut self) -> Option<TicketId> {
        loop {
            match self.places.pop_front() {
                Some(next) if !self.present.remove(&next) => {}
                next => return next,
            }
        }
    }

    fn remove(&mut self, ticket: TicketId) {
        if self.present.remove(&ticket) && 2 * self.present.len() < self.places.len() {
            self.places.retain(|place| self.present.contains(place));
        }
    }

    fn retain(&mut self, mut stays: impl FnMut(&TicketId) -> bool) {
        let present = &mut self.present;
        self.places.retain(|ticket| {
            let stays = present.contains(ticket) && stays(ticket);
            if !stays {
                present.remove(ticket);
            }
            stays
        });
    }

    fn iter(&self) -> impl Iterator<Item = &TicketId> {
        let present = |ticket: &&TicketId| self.present.contains(ticket);
        self.places.iter().filter(present)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fifo_is_a_queue(steps in prop::collection::vec((0..6_u8, 0..12_usize), 0..60)) {
            let (mut fifo, mut model) = (Fifo::default(), VecDeque::new());
            for (number, (step, place)) in (0..).zip(steps) {
                let chosen = model.get(place).copied().unwrap_or(TicketId(u64::MAX));
                match step {
                    0 => {
                        let mut asked = Vec::new();
                        fifo.retain(|one| {
                            asked.push(*one);
                            *one != chosen
                        });
                        prop_assert!(asked.iter().eq(&model), "each once, in their order");
                        model.retain(|one| *one != chosen);
                    }
                    1 => prop_assert_eq!(fifo.pop_front(), model.pop_front()),
                    2 => {
                        fifo.remove(chosen);
                        model.retain(|one| *one != chosen);
                    }
                    _ => {
                        fifo.push_back(TicketId(number));
                        model.push_back(TicketId(number));
                    }
                }
                prop_assert!(fifo.iter().eq(&model));
                prop_assert_eq!(fifo.front(), model.front());
                prop_assert_eq!((fifo.len(), fifo.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }

    /// Fails if each removal from the middle scans the whole queue, or if the places of removed
    /// tickets stay forever.
    #[test]
    fn leaving_from_the_middle_does_not_scan_the_queue() {
        let mut fifo = Fifo::default();
        (0..60_000).for_each(|number| fifo.push_back(TicketId(number)));
        let places = |fifo: &Fifo| fifo.rest.as_ref().map_or(0, |rest| rest.places.len());
        let (mut sweeps, mut kept) = (0, places(&fifo));
        for number in (1..60_000).rev() {
            fifo.remove(TicketId(number));
            sweeps += usize::from(places(&fifo) < kept);
            kept = places(&fifo);
        }
        assert!(sweeps <= 20, "{sweeps}");
        assert_eq!((kept, fifo.len(), fifo.front()), (0, 1, Some(&TicketId(0))));
    }
}
