//! Further required behaviour of a store with a queue of processes. Each client stands for a
//! process. When a lock becomes free, it is the turn of the first process in the queue. This
//! process gets a claim: for a while, no other process can take the lock.

use std::time::Duration;

use super::client::{Client, acquire, release, scene, taking};
use super::play::{self, play};
use super::promises::{Promises, TTL};
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::fence::Fence;
use crate::store::{CLAIM, LockStore, Op, Reply, Take, TakeKind};

/// Runs the tests. `connect` returns another client of the same store, and is called three times.
///
/// # Panics
///
/// If the store does not conform.
pub(crate) async fn run(promises: Promises, mut connect: impl FnMut() -> Box<dyn LockStore>) {
    let mut one = Client::of(promises, connect());
    let mut two = Client::of(promises, connect());
    let mut three = Client::of(promises, connect());
    play!(first_come_first_served; one, two, three);
    play!(nobody_overtakes_at_the_end_of_a_lease; one, two, three);
    play!(a_claim_runs_out; one, two, three);
    play!(leaving; one, two, three);
    play!(a_claim_is_no_lock; one, two);
    // A store with sessions reserves no fences. So a holder cannot hand its lock over inside its
    // process, and needs no reports about the queue.
    if !promises.sessions {
        play!(the_same_reserve; one);
        play!(reserves_never_meet; one, two);
        play!(holders_are_notified; one, two, three);
    }
    play!(a_turn_ends; one, two, three);
    play!(a_turn_ends_that_is_over; one, two);
    play!(a_turn_ends_for_who_has_a_place; one, two);
    if !promises.sessions {
        play!(super::results::queued; one, two, three);
        play!(super::shares::run; one, two);
        play!(leaving_a_shared_lock; one, two, three);
    }
}

async fn first_come_first_served(one: &mut Client, two: &mut Client, three: &mut Client) {
    let (key, held, other) = scene("served");
    let (second, third) = (token(), token());
    one.acquire(&key, held, TTL).await.unwrap();
    assert!(two.queues(&key, second).await);
    assert!(three.queues(&key, third).await);
    // A repeated request keeps the process's position in the queue.
    assert!(two.queues(&key, second).await);
    assert!(one.release(&key, held).await);
    two.turn(&key).await;
    assert!(!three.turns.contains(&key), "two processes have their turn");
    assert!(three.queues(&key, third).await, "it is another's turn");
    assert!(
        one.acquire(&key, other, TTL).await.is_none(),
        "a single try took another's turn"
    );
    two.acquire(&key, second, TTL).await.expect("its turn");
    assert!(two.release(&key, second).await);
    three.turn(&key).await;
    three.acquire(&key, third, TTL).await.expect("its turn");
    assert!(three.release(&key, third).await);
    one.is_free(&key).await;
}

async fn nobody_overtakes_at_the_end_of_a_lease(
    one: &mut Client,
    two: &mut Client,
    three: &mut Client,
) {
    let (key, held, other) = scene("overtakes");
    let second = token();
    let short = one.promises.short;
    one.acquire(&key, held, short).await.unwrap();
    assert!(two.queues(&key, second).await);
    tokio::time::sleep(short * 2).await;
    let came_later = three.acquire(&key, other, TTL).await;
    assert_eq!(came_later, None, "the key was another's");
    two.turn(&key).await;
    two.acquire(&key, second, TTL).await.expect("its turn");
    assert!(two.release(&key, second).await);
    three.is_free(&key).await;
}

async fn a_claim_runs_out(one: &mut Client, two: &mut Client, three: &mut Client) {
    let promises = one.promises;
    let (key, held, _) = scene("claim");
    let (second, third) = (token(), token());
    one.acquire(&key, held, TTL).await.unwrap();
    assert!(two.queues(&key, second).await);
    assert!(three.queues(&key, third).await);
    assert!(one.release(&key, held).await);
    two.turn(&key).await;
    let Reply::Held { left, .. } = three.ask(queueing(&key, third, 0)).await else {
        panic!("the key was handed to another");
    };
    // A server with sessions does not report the end of a claim, because the process with the claim
    // gives the claim up. So the test waits for longer than `CLAIM`.
    let left = if promises.sessions {
        CLAIM + CLAIM / 2
    } else {
        left.expect("a claim has an end")
    };
    assert!(promises.sessions || left <= CLAIM, "{left:?}");
    tokio::time::sleep(left + Duration::from_millis(20)).await;
    let Reply::Acquired { .. } = three.ask(queueing(&key, third, 0)).await else {
        panic!("the claim was not confirmed, and this is the next");
    };
    assert!(two.queues(&key, second).await, "it came too late");
    assert!(three.release(&key, third).await);
    two.turn(&key).await;
    two.leaves(&key).await;
    one.is_free(&key).await;
}

async fn leaving(one: &mut Client, two: &mut Client, three: &mut Client) {
    let (key, held, _) = scene("leaving");
    let (second, third) = (token(), token());
    one.acquire(&key, held, TTL).await.unwrap();
    assert!(two.queues(&key, second).await);
    assert!(three.queues(&key, third).await);
    two.leaves(&key).await;
    assert_eq!(one.renew(&[(&key, held)], TTL).await, [true], "it is held");
    assert!(one.release(&key, held).await);
    three.turn(&key).await;
    assert!(!two.turns.contains(&key), "it has left");
    assert!(two.queues(&key, second).await);
    // The claim of the leaving process goes to the next process in the queue.
    three.leaves(&key).await;
    two.turn(&key).await;
    two.acquire(&key, second, TTL).await.expect("its turn");
    // Leaving gives up the place in the queue, but not the held lock.
    two.leaves(&key).await;
    assert!(two.release(&key, second).await);
    one.is_free(&key).await;
}

/// Checks that the process behind a leaving one is notified while the lock is shared, because the
/// leaving process may have kept a share from it.
async fn leaving_a_shared_lock(one: &mut Client, two: &mut Client, three: &mut Client) {
    let (key, share, second) = scene("leaving-shared");
    let third = token();
    assert!(one.joins(&key, share, TTL, 0).await);
    assert!(two.queues(&key, second).await);
    assert!(three.queues(&key, third).await);
    two.leaves(&key).await;
    three.turn(&key).await;
    three.leaves(&key).await;
    assert!(one.parts(&key, share).await);
    one.is_free(&key).await;
}

async fn a_claim_is_no_lock(one: &mut Client, two: &mut Client) {
    let (key, held, other) = scene("no-lock");
    one.acquire(&key, held, TTL).await.unwrap();
    assert!(two.queues(&key, other).await);
    assert!(one.release(&key, held).await);
    two.turn(&key).await;
    for token in [held, other] {
        assert_eq!(two.renew(&[(&key, token)], TTL).await, [false]);
        assert!(!two.release(&key, token).await);
    }
    two.leaves(&key).await;
    one.is_free(&key).await;
}

async fn the_same_reserve(one: &mut Client) {
    let (key, mine, _) = scene("reserve");
    let first = one.reserve(&key, mine, 5).await;
    assert_eq!(first.1, 5);
    let again = one.reserve(&key, mine, 0).await;
    assert_eq!(again, first, "the same token got something else");
    assert!(one.release(&key, mine).await);
}

async fn reserves_never_meet(one: &mut Client, two: &mut Client) {
    let (key, _, _) = scene("reserves");
    let mut last = Fence::new(0);
    for round in 0..50 {
        let client = if round % 2 == 0 { &mut *one } else { &mut *two };
        let token = token();
        let (fence, reserved_fences) = client.reserve(&key, token, 64 - round).await;
        assert!(last < fence, "{fence:?} may have been given already");
        last = (0..reserved_fences).fold(fence, |fence, _| fence.next());
        assert!(client.release(&key, token).await);
    }
}

async fn holders_are_notified(one: &mut Client, two: &mut Client, three: &mut Client) {
    let (key, held, _) = scene("told");
    let (second, third) = (token(), token());
    let Reply::Acquired { wanted, .. } = one.ask(acquire(&key, held, TTL)).await else {
        panic!("it is free");
    };
    assert_eq!(wanted, Some(false));
    assert!(two.queues(&key, second).await);
    while !one.wanted.contains(&key) {
        one.listen().await;
    }
    assert!(three.queues(&key, third).await);
    assert!(one.release(&key, held).await);
    two.turn(&key).await;
    let Reply::Acquired { wanted, .. } = two.ask(queueing(&key, second, 0)).await else {
        panic!("it is its turn");
    };
    assert_eq!(wanted, Some(true), "one more queues");
    three.leaves(&key).await;
    assert!(two.release(&key, second).await);
    one.is_free(&key).await;
}

/// Checks a process that releases a lock and requests it again in one batch. The request must queue
/// behind the processes that already wait.
async fn a_turn_ends(one: &mut Client, two: &mut Client, three: &mut Client) {
    let (key, held, next) = scene("turn-ends");
    let (second, third) = (token(), token());
    let before = one.acquire(&key, held, TTL).await.unwrap();
    // No other process queues, so the first process takes the key again.
    let Reply::Acquired { fence, wanted, .. } = one.again(&key, held, next).await else {
        panic!("nobody else wants it");
    };
    assert!(Some(before) < fence, "fences grow");
    assert_eq!(wanted, Some(false));
    assert!(two.queues(&key, second).await);
    assert!(three.queues(&key, third).await);
    let Reply::Held {
        left, queued: true, ..
    } = one.again(&key, next, held).await
    else {
        panic!("two others come first");
    };
    assert!(left <= Some(CLAIM), "{left:?}");
    two.turn(&key).await;
    let Reply::Acquired { wanted, .. } = two.ask(queueing(&key, second, 0)).await else {
        panic!("it is its turn");
    };
    assert_eq!(wanted, Some(true), "two more queue");
    let Reply::Held { .. } = two.again(&key, second, token()).await else {
        panic!("two others come first");
    };
    three.turn(&key).await;
    three.acquire(&key, third, TTL).await.expect("its turn");
    assert!(one.queues(&key, held).await, "it keeps its place");
    assert!(!one.turns.contains(&key), "it is behind the third");
    assert!(three.release(&key, third).await);
    one.turn(&key).await;
    one.acquire(&key, held, TTL).await.expect("its turn");
    two.leaves(&key).await;
    assert!(one.release(&key, held).await);
    three.is_free(&key).await;
}

/// Checks a process that has already lost its lock, and then releases the lock and requests it
/// again. The release removes nothing, and the request must still join the queue.
async fn a_turn_ends_that_is_over(one: &mut Client, two: &mut Client) {
    let (key, held, next) = scene("turn-over");
    let second = token();
    two.acquire(&key, second, TTL).await.unwrap();
    let replies = one.ask_all(turn_of(&key, held, next)).await;
    assert!(matches!(
        replies[..],
        [
            Reply::Released { found: false, .. },
            Reply::Held { queued: true, .. }
        ]
    ));
    assert!(two.release(&key, second).await);
    one.turn(&key).await;
    let replies = one.ask_all(turn_of(&key, held, next)).await;
    assert!(matches!(
        replies[..],
        [Reply::Released { found: false, .. }, Reply::Acquired { .. }]
    ));
    assert!(one.release(&key, next).await);
    two.is_free(&key).await;
}

/// Checks a process whose first call has the lock while its second call waits in the queue. The
/// process releases the lock and requests it again, and must keep the second call's place.
async fn a_turn_ends_for_who_has_a_place(one: &mut Client, two: &mut Client) {
    let (key, held, next) = scene("turn-place");
    let second = token();
    one.acquire(&key, held, TTL).await.unwrap();
    assert!(one.queues(&key, next).await);
    assert!(two.queues(&key, second).await);
    let Reply::Acquired { wanted, .. } = one.again(&key, held, next).await else {
        panic!("it was the first");
    };
    assert_eq!(wanted, Some(true));
    assert!(two.queues(&key, second).await);
    let Reply::Held { queued: true, .. } = one.again(&key, next, held).await else {
        panic!("the other was the first");
    };
    two.turn(&key).await;
    two.acquire(&key, second, TTL).await.expect("its turn");
    one.leaves(&key).await;
    assert!(two.release(&key, second).await);
    one.is_free(&key).await;
}

fn turn_of(key: &FullKey, held: Token, next: Token) -> Vec<Op> {
    vec![release(key, held, Vec::new()), queueing(key, next, 0)]
}

fn token() -> Token {
    Token::random(Nonce::new())
}

fn queueing(key: &FullKey, token: Token, reserved_fences: u32) -> Op {
    Op::Take(Take {
        queue: true,
        kind: TakeKind::Lock { reserved_fences },
        ..taking(key, token, TTL)
    })
}

impl Client {
    /// Requests a key that is not free. Returns true if this process now has a place in the queue.
    pub(super) async fn queues(&mut self, key: &FullKey, token: Token) -> bool {
        match self.ask(queueing(key, token, 0)).await {
            Reply::Held { queued, .. } => queued,
            other => panic!("another had the key, and the answer was {other:?}"),
        }
    }

    /// Waits until the store reports that it is the turn of this process.
    pub(super) async fn turn(&mut self, key: &FullKey) {
        while !self.turns.remove(key) {
            self.listen().await;
        }
    }

    /// Releases a lock of this process and requests it again, in one pipeline.
    async fn again(&mut self, key: &FullKey, held: Token, next: Token) -> Reply {
        let mut replies = self.ask_all(turn_of(key, held, next)).await;
        assert!(matches!(replies[0], Reply::Released { found: true, .. }));
        replies.remove(1)
    }

    async fn leaves(&mut self, key: &FullKey) {
        let key = key.clone();
        assert_eq!(self.ask(Op::Leave { key }).await, Reply::Left);
    }

    async fn reserve(&mut self, key: &FullKey, token: Token, reserved_fences: u32) -> (Fence, u32) {
        match self.ask(queueing(key, token, reserved_fences)).await {
            Reply::Acquired {
                fence,
                reserved_fences,
                ..
            } => (fence.expect("queues have fences"), reserved_fences),
            other => panic!("an acquire was answered by {other:?}"),
        }
    }

    /// Fails if the key is still locked, or reserved for a process, at the end of a test.
    pub(super) async fn is_free(&mut self, key: &FullKey) {
        let token = token();
        let fence = self.acquire(key, token, TTL).await;
        assert!(fence.is_some(), "{key} is not free");
        assert!(self.release(key, token).await);
    }
}
