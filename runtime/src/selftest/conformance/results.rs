//! Tests of kept results and of adopted locks.

use std::sync::Arc;
use std::time::Duration;

use super::client::{Client, scene};
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::fence::Fence;
use crate::store::kept::{Fingerprint, Kept, Record};
use crate::store::{Give, GiveKind, Op, Reply, Take, TakeKind};

/// Lifetime of a kept result. It does not end during a test.
const STAYS: Duration = Duration::from_secs(60);

pub(super) async fn run(one: &mut Client, two: &mut Client) {
    a_result_is_the_answer(one, two).await;
    a_result_of_a_lost_lock_is_not_kept(one, two).await;
    a_recall_is_repeated(one, two).await;
    a_record_is_repeated(one, two).await;
    a_result_ends(one, two).await;
    each_function_has_its_result(one, two).await;
    a_kept_lock_has_its_result(one, two).await;
    a_lock_changes_hands_once(one, two).await;
    a_lost_lock_cannot_be_adopted(one, two).await;
}

async fn a_result_is_the_answer(one: &mut Client, two: &mut Client) {
    let (key, mine, other) = scene("result");
    let kept = result(Some(Fingerprint([7; 32])), r#"{"text":"a:b\n\"ü\""}"#);
    assert!(one.recall(&key, mine).await.is_ok(), "nothing is kept");
    assert_eq!(two.recall(&key, other).await, Err(None), "it is held");
    assert!(one.record(&key, mine, &kept, STAYS).await);
    for client in [&mut *one, &mut *two] {
        let token = Token::random(Nonce::new());
        assert_eq!(client.recall(&key, token).await, Err(Some(kept.clone())));
        assert_eq!(client.renew(&[(&key, token)], STAYS).await, [false]);
    }
    // The lock itself is free. Even while a client holds it, the store returns the kept result.
    assert!(two.acquire(&key, other, one.promises.ttl).await.is_some());
    assert_eq!(one.recall(&key, mine).await, Err(Some(kept)));
    assert!(two.release(&key, other).await);
    assert!(two.forget(&key).await, "there was one");
    assert!(!one.forget(&key).await, "there was another");
    assert!(one.recall(&key, mine).await.is_ok());
    assert!(one.release(&key, mine).await);
}

async fn a_result_of_a_lost_lock_is_not_kept(one: &mut Client, two: &mut Client) {
    let (key, mine, other) = scene("result-lost");
    let short = one.promises.short;
    let kept = result(None, "1");
    assert!(one.recall_for(&key, mine, short).await.is_ok());
    tokio::time::sleep(short * 2).await;
    assert!(!one.record(&key, mine, &kept, STAYS).await, "it is free");
    assert!(two.recall(&key, other).await.is_ok(), "it was kept");
    assert!(!one.record(&key, mine, &kept, STAYS).await, "another's");
    assert!(two.release(&key, other).await);
    assert!(one.recall(&key, mine).await.is_ok(), "it was kept");
    assert!(one.release(&key, mine).await);
}

async fn a_recall_is_repeated(one: &mut Client, two: &mut Client) {
    let (key, mine, other) = scene("recall-again");
    let fence = one.recall(&key, mine).await.expect("it is free");
    assert_eq!(one.recall(&key, mine).await, Ok(fence), "its own token");
    assert!(one.release(&key, mine).await);
    let later = two.recall(&key, other).await.expect("it is free");
    assert!(fence < later, "{fence:?} {later:?}");
    assert!(two.release(&key, other).await);
}

/// Checks that a release repeated after a lost answer does not replace the kept result.
async fn a_record_is_repeated(one: &mut Client, two: &mut Client) {
    let (key, mine, other) = scene("record-again");
    let (first, second) = (result(None, "1"), result(None, "2"));
    assert!(one.recall(&key, mine).await.is_ok());
    assert!(one.record(&key, mine, &first, STAYS).await);
    assert!(!one.record(&key, mine, &second, STAYS).await);
    assert_eq!(two.recall(&key, other).await, Err(Some(first)));
    assert!(one.forget(&key).await);
}

async fn a_result_ends(one: &mut Client, two: &mut Client) {
    let (key, mine, other) = scene("result-ends");
    let (kept, short) = (result(None, "1"), one.promises.short);
    assert!(one.recall(&key, mine).await.is_ok());
    assert!(one.record(&key, mine, &kept, short).await);
    tokio::time::sleep(short * 2).await;
    assert!(!two.forget(&key).await, "its time is over");
    assert!(two.recall(&key, other).await.is_ok());
    assert!(two.record(&key, other, &kept, STAYS).await);
    assert!(two.forget(&key).await);
}

/// Checks that the kept result of one function is not returned to another function. It must also
/// stay when the result of the other function is stored or expires.
async fn each_function_has_its_result(one: &mut Client, two: &mut Client) {
    let (key, mine, other) = scene("result-functions");
    let (first, second) = (result(None, "1 2 3 4"), result(None, r#""1 2 3 \u0000""#));
    let (create, cancel, short) = ("shop::create", "shop::cancel ü 9 9 9 ", one.promises.short);
    assert!(one.recall_in(create, &key, mine).await.is_ok());
    assert!(one.record_in(create, &key, mine, &first, STAYS).await);
    assert!(
        two.recall_in(cancel, &key, other).await.is_ok(),
        "another's"
    );
    assert!(two.record_in(cancel, &key, other, &second, short).await);
    assert_eq!(
        one.recall_in(create, &key, mine).await,
        Err(Some(first.clone()))
    );
    let kept = one.recall_in(cancel, &key, mine).await;
    assert!(
        kept == Err(Some(second.clone())) || kept.is_ok(),
        "{kept:?}"
    );
    if kept.is_ok() {
        assert!(one.release(&key, mine).await);
    }
    tokio::time::sleep(short * 2).await;
    assert_eq!(two.recall_in(create, &key, other).await, Err(Some(first)));
    assert!(two.recall_in(cancel, &key, other).await.is_ok(), "it ended");
    assert!(two.record_in(cancel, &key, other, &second, STAYS).await);
    assert!(one.forget(&key).await, "all functions");
    for function in [create, cancel] {
        let token = Token::random(Nonce::new());
        assert!(
            one.recall_in(function, &key, token).await.is_ok(),
            "forgotten"
        );
        assert!(one.release(&key, token).await);
    }
}

/// Checks a lock that stays locked after its call, because of `min_hold`. Meanwhile, a `replay`
/// call must already get the kept result.
async fn a_kept_lock_has_its_result(one: &mut Client, two: &mut Client) {
    let (key, mine, other) = scene("result-kept");
    let (kept, short) = (result(None, "1"), one.promises.short);
    assert!(one.recall(&key, mine).await.is_ok());
    let record = record(&key, mine, &kept, STAYS, Some(short));
    assert!(matches!(
        one.ask(record).await,
        Reply::Released { found: true, .. }
    ));
    let acquired = two.acquire(&key, other, one.promises.ttl).await;
    assert!(acquired.is_none(), "it is kept");
    assert_eq!(two.recall(&key, other).await, Err(Some(kept)));
    tokio::time::sleep(short * 2).await;
    assert!(two.forget(&key).await);
    assert!(two.recall(&key, other).await.is_ok());
    assert!(two.release(&key, other).await);
}

async fn a_lock_changes_hands_once(one: &mut Client, two: &mut Client) {
    let (ttl, short) = (one.promises.ttl, one.promises.short);
    let (key, mine, other) = scene("adopted");
    let fence = one.acquire(&key, mine, short).await.expect("it is free");
    for _ in 0..2 {
        // The second request repeats the first one, as if its reply had been lost.
        let adopted = two.adopt(&key, mine, other).await;
        assert_eq!(adopted, Some(fence), "its fence stays");
    }
    let third = Token::random(Nonce::new());
    assert_eq!(one.adopt(&key, mine, third).await, None, "adopted twice");
    assert_eq!(one.renew(&[(&key, mine)], ttl).await, [false]);
    assert!(!one.release(&key, mine).await, "it is another's");
    tokio::time::sleep(short * 2).await;
    assert_eq!(
        two.renew(&[(&key, other)], ttl).await,
        [true],
        "not for its ttl"
    );
    assert!(one.acquire(&key, mine, ttl).await.is_none());
    assert!(two.release(&key, other).await);
    let later = one.acquire(&key, mine, ttl).await.expect("it is free");
    assert!(fence < later, "{fence:?} {later:?}");
    assert!(one.release(&key, mine).await);
}

async fn a_lost_lock_cannot_be_adopted(one: &mut Client, two: &mut Client) {
    let (key, mine, other) = scene("not-adopted");
    assert_eq!(two.adopt(&key, mine, other).await, None, "no lock");
    assert!(one.acquire(&key, mine, one.promises.short).await.is_some());
    tokio::time::sleep(one.promises.short * 2).await;
    assert_eq!(two.adopt(&key, mine, other).await, None, "its time is over");
    assert!(one.acquire(&key, mine, one.promises.ttl).await.is_some());
    assert!(one.release(&key, mine).await);
}

/// Checks that a queued process is notified of its turn, and then gets the kept result instead of
/// the lock. When it leaves the queue, the next process must get its turn.
pub(super) async fn queued(one: &mut Client, two: &mut Client, three: &mut Client) {
    let (key, mine, second) = scene("result-queued");
    let (kept, third) = (result(None, "1"), Token::random(Nonce::new()));
    assert!(one.recall(&key, mine).await.is_ok());
    let ttl = one.promises.ttl;
    let held = two.ask(recall(&key, second, ttl, true)).await;
    assert!(matches!(held, Reply::Held { queued: true, .. }), "{held:?}");
    assert!(three.queues(&key, third).await);
    assert!(one.record(&key, mine, &kept, STAYS).await);
    two.turn(&key).await;
    let reported = two.ask(recall(&key, second, ttl, true)).await;
    assert_eq!(reported, Reply::Recalled(Arc::clone(&kept)));
    assert_eq!(two.ask(Op::Leave { key: key.clone() }).await, Reply::Left);
    three.turn(&key).await;
    assert!(three.acquire(&key, third, ttl).await.is_some(), "its turn");
    assert!(three.release(&key, third).await);
    assert!(two.forget(&key).await);
    one.is_free(&key).await;
}

fn result(fingerprint: Option<Fingerprint>, json: &str) -> Arc<Kept> {
    let json = json.into();
    Arc::new(Kept { fingerprint, json })
}

/// The function name that most tests send to the store.
const FUNCTION: &str = "conformance";

fn recall(key: &FullKey, token: Token, ttl: Duration, queue: bool) -> Op {
    Op::Take(Take {
        queue,
        kind: TakeKind::Recall,
        ..Take::lock(key.clone(), token, ttl, FUNCTION)
    })
}

fn record(
    key: &FullKey,
    token: Token,
    kept: &Arc<Kept>,
    stays: Duration,
    keep: Option<Duration>,
) -> Op {
    let kept = Arc::clone(kept);
    let record = Record {
        function: FUNCTION,
        kept,
        stays,
    };
    Op::Give(Give {
        keep,
        ..Give::now(key.clone(), token, GiveKind::Record(record.into()))
    })
}

impl Client {
    /// Takes the lock and returns its fence. Otherwise fails: with the kept result if there is one,
    /// or with `None` if the lock is held.
    async fn recall(&mut self, key: &FullKey, token: Token) -> Result<Fence, Option<Arc<Kept>>> {
        self.recall_for(key, token, self.promises.ttl).await
    }

    async fn recall_for(
        &mut self,
        key: &FullKey,
        token: Token,
        ttl: Duration,
    ) -> Result<Fence, Option<Arc<Kept>>> {
        self.recall_by(recall(key, token, ttl, false)).await
    }

    async fn recall_in(
        &mut self,
        function: &'static str,
        key: &FullKey,
        token: Token,
    ) -> Result<Fence, Option<Arc<Kept>>> {
        let take = Take {
            kind: TakeKind::Recall,
            ..Take::lock(key.clone(), token, self.promises.ttl, function)
        };
        self.recall_by(Op::Take(take)).await
    }

    async fn recall_by(&mut self, op: Op) -> Result<Fence, Option<Arc<Kept>>> {
        match self.ask(op).await {
            Reply::Acquired {
                fence: Some(fence),
                reserved_fences: 0,
                ..
            } => Ok(fence),
            Reply::Recalled(kept) => Err(Some(kept)),
            Reply::Held { queued: false, .. } => Err(None),
            other => panic!("a recall was answered by {other:?}"),
        }
    }

    /// Returns true if the lock was released and the result is kept.
    async fn record(
        &mut self,
        key: &FullKey,
        token: Token,
        kept: &Arc<Kept>,
        stays: Duration,
    ) -> bool {
        self.record_by(record(key, token, kept, stays, None)).await
    }

    async fn record_in(
        &mut self,
        function: &'static str,
        key: &FullKey,
        token: Token,
        kept: &Arc<Kept>,
        stays: Duration,
    ) -> bool {
        let record = Record {
            function,
            kept: Arc::clone(kept),
            stays,
        };
        let give = Give::now(key.clone(), token, GiveKind::Record(record.into()));
        self.record_by(Op::Give(give)).await
    }

    async fn record_by(&mut self, op: Op) -> bool {
        match self.ask(op).await {
            Reply::Released { found, .. } => found,
            other => panic!("a record was answered by {other:?}"),
        }
    }

    async fn forget(&mut self, key: &FullKey) -> bool {
        match self.ask(Op::Forget { key: key.clone() }).await {
            Reply::Forgotten(had) => had,
            other => panic!("a forget was answered by {other:?}"),
        }
    }

    /// Adopts a lock for the long ttl and returns its fence. `None` if `from` has no lock.
    async fn adopt(&mut self, key: &FullKey, from: Token, token: Token) -> Option<Fence> {
        let adopt = Op::Adopt {
            key: key.clone(),
            from,
            token,
            ttl: self.promises.ttl,
            function: "conformance",
        };
        match self.ask(adopt).await {
            Reply::Acquired { fence, .. } => fence,
            Reply::Gone => None,
            other => panic!("an adoption was answered by {other:?}"),
        }
    }
}
