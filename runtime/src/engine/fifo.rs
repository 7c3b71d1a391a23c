//! Those that wait for one key.

use std::collections::VecDeque;

use super::ticket::TicketId;

/// Tickets in the order in which they came. One alone, which is what a lock that nobody else wants has, takes no memory of its own.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    /// Nobody only if there are no others.
    first: Option<TicketId>,
    others: VecDeque<TicketId>,
}

impl Fifo {
    pub(super) fn front(&self) -> Option<&TicketId> {
        self.first.as_ref()
    }

    pub(super) fn push_back(&mut self, ticket: TicketId) {
        if self.first.is_none() {
            self.first = Some(ticket);
        } else {
            self.others.push_back(ticket);
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<TicketId> {
        let next = self.others.pop_front();
        std::mem::replace(&mut self.first, next)
    }

    pub(super) fn retain(&mut self, mut stays: impl FnMut(&TicketId) -> bool) {
        let first_stays = self.first.as_ref().is_none_or(&mut stays);
        self.others.retain(stays);
        if !first_stays {
            self.pop_front();
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TicketId> {
        self.first.iter().chain(&self.others)
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue(steps in prop::collection::vec((0..4_u8, 0..4_u64), 0..24)) {
            let (mut fifo, mut model) = (Fifo::default(), VecDeque::new());
            for (step, number) in steps {
                let ticket = TicketId(number);
                match step {
                    0 => {
                        let mut asked = Vec::new();
                        fifo.retain(|one| {
                            asked.push(*one);
                            *one != ticket
                        });
                        prop_assert!(asked.iter().eq(&model), "each once, in their order");
                        model.retain(|one| *one != ticket);
                    }
                    1 => prop_assert_eq!(fifo.pop_front(), model.pop_front()),
                    _ => {
                        fifo.push_back(ticket);
                        model.push_back(ticket);
                    }
                }
                prop_assert!(fifo.iter().eq(&model));
                prop_assert_eq!(fifo.front(), model.front());
                prop_assert_eq!((fifo.len(), fifo.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }
}
