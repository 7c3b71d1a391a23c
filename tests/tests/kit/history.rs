//! Tests of the kit's history, which records the events of all locks.

use std::time::Duration;

use leasehold::testing::{EventKind, Kit, Mode, Point};
use leasehold::{LockError, distributed_lock};
use tokio::time::sleep;

use super::{is_contended, request, secs};

#[distributed_lock(key = "item:<sku>", ttl = "9s", watchdog, wait = "20s")]
async fn sell(sku: &str) -> Result<(), LockError> {
    sleep(secs(4)).await;
    assert!(!sku.is_empty());
    Ok(())
}

#[distributed_lock(key = "item:<sku>", ttl = "9s")]
async fn look(sku: &str) -> Result<(), LockError> {
    assert!(!sku.is_empty());
    Ok(())
}

/// Fails if an event is missing, is out of order or has a wrong time. The history must be the same
/// in each run.
#[tokio::test(start_paused = true)]
async fn all_events_are_recorded_in_order() {
    let kit = Kit::new();
    let scene = async {
        let other = kit.hold("item:kettle").await;
        assert!(is_contended(&look("kettle").await));
        let sold = leasehold::spawn(sell("kettle"));
        sleep(secs(1)).await;
        other.release().await;
        let also = leasehold::spawn(sell("kettle"));
        sold.await.expect("no panic").expect("it waits");
        also.await.expect("no panic").expect("it waits");
        kit.lose_when("item:kettle", Point::AfterPolls(1));
        assert!(sell("kettle").await.is_err());
        kit.store_down();
        assert!(look("kettle").await.is_err());
    };
    kit.scope(scene).await;
    let sell = "call 2 of kit::history::sell";
    let expected = [
        "0.000s other 1 item:kettle granted, exclusive",
        "0.000s call 1 of kit::history::look item:kettle refused, contended",
        "1.000s other 1 item:kettle released",
        &format!("1.000s {sell} item:kettle granted, exclusive"),
        &format!("4.000s {sell} item:kettle renewed"),
        &format!("5.000s {sell} item:kettle released"),
        "5.000s call 3 of kit::history::sell item:kettle granted, exclusive",
        "8.000s call 3 of kit::history::sell item:kettle renewed",
        "9.000s call 3 of kit::history::sell item:kettle released",
        "9.000s call 4 of kit::history::sell item:kettle granted, exclusive",
        "9.000s call 4 of kit::history::sell item:kettle lost",
        "9.000s call 5 of kit::history::look item:kettle refused, unavailable",
    ];
    let reported = kit.history().to_string();
    let reported: Vec<_> = reported
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    // Timers have a resolution of a millisecond, so the times are rounded before the comparison.
    let reported: Vec<_> = reported.iter().map(|line| rounded(line)).collect();
    assert_eq!(reported, expected);
    let history = kit.history();
    assert!(history.is_exclusive(), "{history}");
    let counts = [
        history.grants(),
        history.renewals(),
        history.releases(),
        history.losses(),
        history.refusals(),
    ];
    assert_eq!(counts, [4, 2, 3, 1, 2]);
    assert_eq!(history.into_iter().count(), history.len());
}

/// Returns the line with its time rounded to a hundredth of a second.
fn rounded(line: &str) -> String {
    let (time, rest) = line.split_once("s ").expect("a time");
    let time: f64 = time.parse().expect("seconds");
    format!("{:.3}s {rest}", (time * 100.0).round() / 100.0)
}

/// Fails if the history of one key contains events of other keys.
#[tokio::test(start_paused = true)]
async fn the_history_of_one_key_is_separate() {
    let kit = Kit::new();
    for key in ["a", "b", "a"] {
        kit.hold(key).await.release().await;
    }
    assert_eq!(kit.history().of("a").len(), 4);
    assert_eq!(kit.history().of("b").grants(), 1);
    assert!(kit.history().of("c").is_empty());
    assert_eq!(kit.history().of("c").to_string(), "nothing has happened\n");
}

/// Fails if the history does not record that a call or a guard was dropped.
#[tokio::test(start_paused = true)]
async fn dropped_calls_are_recorded() {
    let kit = Kit::new();
    let call = tokio::time::timeout(secs(1), request(&kit).run(sleep(secs(5))));
    assert!(call.await.is_err());
    drop(request(&kit).acquire().await.expect("it is free"));
    let kinds: Vec<_> = kit
        .history()
        .iter()
        .map(|event| event.kind.clone())
        .collect();
    assert_eq!(kinds.len(), 4);
    assert_eq!(
        (&kinds[1], &kinds[3]),
        (&EventKind::Dropped, &EventKind::Dropped)
    );
}

/// A writer downgrades its exclusive lock to a shared lock, and a reader gets the shared lock too.
/// Fails if the history reports an overlap, or lacks the downgrade.
#[tokio::test(start_paused = true)]
async fn a_downgrade_is_recorded() {
    let kit = Kit::new();
    let mut writer = request(&kit).acquire().await.expect("it is free");
    writer.downgrade().await.expect("it is held");
    let reader = kit.hold("order:42").shared().await;
    let history = kit.history();
    assert!(history.is_exclusive(), "{history}");
    let modes: Vec<_> = history
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Granted { mode, .. } => Some(mode),
            _ => None,
        })
        .collect();
    assert_eq!(modes, [Mode::Exclusive, Mode::Shared]);
    assert!(
        history
            .iter()
            .any(|event| event.kind == EventKind::Downgraded)
    );
    drop((writer, reader));
}

/// Fails if the recorded fences do not grow, or differ from the fences of the calls.
#[tokio::test(start_paused = true)]
async fn fences_are_recorded() {
    let kit = Kit::new();
    let mut known = Vec::new();
    for _ in 0..3 {
        let guard = request(&kit).acquire().await.expect("it is free");
        known.push(guard.fence().expect("memory has fences"));
        guard.release().await.expect("it lasts");
    }
    let reported: Vec<_> = kit
        .history()
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Granted { fence, .. } => fence,
            _ => None,
        })
        .collect();
    assert_eq!(reported, known);
    assert!(reported.is_sorted());
}

/// A guard is kept beyond the end of its lease. Fails if the history counts the lock as held until
/// the guard is dropped.
#[tokio::test(start_paused = true)]
async fn a_holder_ends_with_its_lease() {
    let kit = Kit::new();
    let late = request(&kit).acquire().await.expect("it is free");
    sleep(secs(10)).await;
    let next = request(&kit).acquire().await.expect("the lease is over");
    assert!(kit.history().is_exclusive(), "{}", kit.history());
    assert_eq!(kit.history().losses(), 1);
    drop((late, next));
    assert_eq!(
        kit.history().releases(),
        1,
        "a lost lock is not released: {}",
        kit.history()
    );
}

/// Fails if a lock counts as held by its first holder after that holder has handed it over, or if
/// the history lacks the call that adopts it.
#[tokio::test(start_paused = true)]
async fn a_handed_over_lock_has_one_holder() {
    let kit = Kit::new();
    let first = request(&kit).acquire().await.expect("it is free");
    let handover = first.hand_over().expect("it is exclusive");
    let adopted = kit.pool().adopt(handover).await.expect("it is in time");
    adopted.release().await.expect("it lasts");
    let next = request(&kit).acquire().await.expect("it is free");
    let history = kit.history();
    assert!(history.is_exclusive(), "{history}");
    assert_eq!((history.grants(), history.releases()), (3, 2), "{history}");
    drop(next);
}

/// Ten calls of one process take turns on a lock, mostly without a request to the store. Fails if
/// the history lacks the grant or the release of one of them.
#[tokio::test(start_paused = true)]
async fn turns_in_the_process_are_recorded() {
    let kit = Kit::new();
    let calls: Vec<_> = (0..10)
        .map(|_| {
            tokio::spawn(
                request(&kit)
                    .wait(secs(20))
                    .run(sleep(Duration::from_millis(10))),
            )
        })
        .collect();
    for call in calls {
        call.await.expect("no panic").expect("it waits");
    }
    let history = kit.history();
    assert_eq!(
        (history.grants(), history.releases()),
        (10, 10),
        "{history}"
    );
    assert!(history.is_exclusive(), "{history}");
}
