//! A list optimized for one element.

use std::iter::Chain;
use std::ops::{Deref, DerefMut};
use std::option;
use std::slice;
use std::vec;

/// A list that needs no heap memory for a single element. Most of these lists have one element,
/// because nearly every call has one lock.
#[derive(Debug, Clone)]
pub(crate) enum OneOrMany<T> {
    One(T),
    /// Any number of elements.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub(crate) fn push(&mut self, next: T) {
        *self = match std::mem::take(self) {
            Self::Many(many) if many.is_empty() => Self::One(next),
            Self::One(one) => Self::Many(vec![one, next]),
            Self::Many(mut many) => {
                many.push(next);
                Self::Many(many)
            }
        };
    }

    pub(crate) fn retain(&mut self, stays: impl FnMut(&T) -> bool) {
        let mut stays = stays;
        match self {
            Self::One(one) if stays(one) => {}
            Self::One(_) => *self = Self::default(),
            Self::Many(many) => many.retain(stays),
        }
    }
}

impl<T> Extend<T> for OneOrMany<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, more: I) {
        for next in more {
            self.push(next);
        }
    }
}

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<T> Deref for OneOrMany<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::One(one) => slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl<T> DerefMut for OneOrMany<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(one) => slice::from_mut(one),
            Self::Many(many) => many,
        }
    }
}

impl<T> FromIterator<T> for OneOrMany<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        let mut all = all.into_iter();
        let Some(first) = all.next() else {
            return Self::default();
        };
        match all.next() {
            None => Self::One(first),
            Some(second) => Self::Many([first, second].into_iter().chain(all).collect()),
        }
    }
}

impl<T> IntoIterator for OneOrMany<T> {
    type Item = T;
    type IntoIter = Chain<option::IntoIter<T>, vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, many) = match self {
            Self::One(one) => (Some(one), Vec::new()),
            Self::Many(many) => (None, many),
        };
        one.into_iter().chain(many)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn one_or_many_behaves_like_a_list(first in prop::collection::vec(0_u8..4, 0..4), steps in prop::collection::vec((any::<bool>(), 0_u8..4), 0..12)) {
            let mut tested: OneOrMany<u8> = first.iter().copied().collect();
            let mut list = first;
            for (adds, number) in steps {
                if adds {
                    tested.push(number);
                    list.push(number);
                } else {
                    tested.retain(|one| *one != number);
                    list.retain(|one| *one != number);
                }
                prop_assert_eq!(&*tested, &*list);
            }
            prop_assert_eq!(tested.clone().into_iter().collect::<Vec<_>>(), list);
        }
    }
}
