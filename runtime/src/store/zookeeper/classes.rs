//! Classes of ttls that share a session, and the time until a heartbeat has reached the leader.

use std::time::Duration;

use crate::store::session::service::Timeout;

/// Requested session lifetimes, in units of half the shortest lifetime that the server allows. By
/// default, this unit is one tick, and a server allows 2 to 20 ticks. If the server allows longer
/// lifetimes, `Classes::all` adds further ones, each twice as long as the one before.
const TICKS: [u32; 7] = [2, 3, 5, 9, 13, 16, 20];

/// Least assumed value of half a tick, the interval at which the leader requests the active
/// sessions from its followers. It applies unless the URL specifies the tick (`tickTime`, 2 s in
/// ZooKeeper's example configuration).
const LEAST_HALF_TICK: Duration = Duration::from_secs(1);

/// Least time added to half a tick, because the leader may request the active sessions late.
const LEAST_LATENESS: Duration = Duration::from_millis(100);

/// Time that `serves` leaves for the writes of a heartbeat, so that a renewal usually finds the
/// session confirmed for long enough.
const WRITES: Duration = Duration::from_millis(200);

/// A server's bounds for the lifetimes of sessions, and half of its tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Classes {
    pub(super) shortest: Duration,
    pub(super) longest: Duration,
    half_tick: Duration,
}

impl Classes {
    /// Creates the classes. `tick` is the ensemble's tick, if the URL specifies it. Otherwise, the
    /// tick is estimated. By default, a server's shortest lifetime is 2 ticks, and its longest is
    /// 20 ticks. So half a tick is a quarter of the shortest or a fortieth of the longest,
    /// whichever is longer. The estimate is at least `LEAST_HALF_TICK`.
    pub(super) fn new(shortest: Duration, longest: Duration, tick: Option<Duration>) -> Self {
        let half_tick = match tick {
            Some(tick) => tick / 2,
            None => (shortest / 4).max(longest / 40).max(LEAST_HALF_TICK),
        };
        Self {
            shortest,
            longest,
            half_tick,
        }
    }

    /// Returns the classes `self`, with the longer tick of `self` and `other`.
    pub(super) fn with_tick_of(self, other: Self) -> Self {
        Self {
            half_tick: self.half_tick.max(other.half_tick),
            ..self
        }
    }

    /// Returns the lifetimes that can be requested for sessions, the shortest first.
    pub(super) fn all(self) -> Vec<Timeout> {
        let wanted = TICKS.iter().map(|ticks| self.shortest * *ticks / 2);
        let doubled = (1..16).map(|times| self.shortest.saturating_mul(10 << times));
        let mut classes: Vec<_> = wanted
            .chain(doubled)
            .take_while(|lasts| *lasts < self.longest)
            .collect();
        classes.push(self.longest);
        classes.into_iter().map(Timeout).collect()
    }

    /// Returns the time after which a heartbeat has reached the leader.
    pub(super) fn propagation(self) -> Duration {
        self.half_tick + LEAST_LATENESS.max(self.half_tick / 4)
    }

    /// Returns the longest ttl that a session with this lifetime serves. The session must be
    /// confirmed for this long at any moment, even just before the next heartbeat takes effect.
    /// Heartbeats are sent after a third of the confirmed time.
    pub(super) fn serves(self, timeout: Timeout) -> Duration {
        let least = timeout.usable() * 2 / 3;
        least.saturating_sub(self.propagation() + WRITES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(classes: Classes) -> Vec<f64> {
        let all = classes.all().into_iter();
        all.map(|Timeout(lasts)| lasts.as_secs_f64()).collect()
    }

    #[test]
    fn session_classes_are_within_the_bounds_of_the_server() {
        let (shortest, longest) = (Duration::from_secs(4), Duration::from_secs(40));
        let classes = Classes::new(shortest, longest, None);
        assert_eq!(seconds(classes), [4.0, 6.0, 10.0, 18.0, 26.0, 32.0, 40.0]);
        let one = Classes::new(longest, longest, None);
        assert_eq!(seconds(one), [40.0]);
        let wide = Classes::new(shortest, Duration::from_secs(120), None);
        assert_eq!(seconds(wide)[6..], [40.0, 80.0, 120.0]);
    }

    #[test]
    fn common_ttls_get_slightly_longer_sessions() {
        let classes = Classes::new(Duration::from_secs(4), Duration::from_secs(40), None);
        for (ttl, lasts) in [(1, 4), (5, 10), (10, 18), (15, 26), (24, 40)] {
            let (ttl, lasts) = (Duration::from_secs(ttl), Duration::from_secs(lasts));
            let mut all = classes.all().into_iter();
            let chosen = all.find(|class| ttl <= classes.serves(*class));
            assert_eq!(chosen, Some(Timeout(lasts)), "{ttl:?}");
        }
    }

    /// Fails if the table of ttls in docs/stores/zookeeper.md differs from the classes.
    #[test]
    fn the_documented_table_of_ttls_matches() {
        let classes = Classes::new(Duration::from_secs(4), Duration::from_secs(40), None);
        let page = include_str!("../../../docs/stores/zookeeper.md");
        let tenths = |ttl: Duration| {
            let tenths = ttl.as_millis() / 100;
            format!("{}.{}", tenths / 10, tenths % 10)
        };
        for class in classes.all() {
            let (ttl, lasts) = (tenths(classes.serves(class)), class.0.as_secs());
            let row = format!("| {ttl} s | {lasts} s |");
            assert!(page.contains(&row), "{row}");
        }
    }

    #[test]
    fn the_estimate_of_the_tick_is_conservative() {
        let propagation = |shortest, longest, tick| {
            let shortest = Duration::from_millis(shortest);
            let classes = Classes::new(shortest, shortest * longest, tick);
            classes.propagation().as_millis()
        };
        assert_eq!(propagation(4_000, 10, None), 1_250);
        assert_eq!(propagation(6_000, 10, None), 1_875);
        assert_eq!(
            propagation(1_000, 10, None),
            1_250,
            "the tick may be longer"
        );
        assert_eq!(
            propagation(2_000, 30, None),
            1_875,
            "only the least was set"
        );
        assert_eq!(
            propagation(1_000, 60, Some(Duration::from_millis(500))),
            350
        );
    }
}
