//! Classes of ttls. Locks with ttls of one class share a session, which is a lease of etcd.

use std::time::Duration;

use crate::store::session::service::Timeout;

/// The longest ttl of each class, in seconds. The etcd lease of the class lasts only a little
/// longer. So if the holder of a lock with exactly such a ttl dies, the lock ends soon after its
/// ttl.
const TTLS: [u64; 17] = [
    1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400,
];

/// Returns the lease lifetime of each class.
pub(super) fn all() -> Vec<Timeout> {
    TTLS.iter().map(|ttl| Timeout(lasts(*ttl))).collect()
}

/// Returns the lifetime of a session for locks with a ttl of `ttl` seconds. It is about 1 % longer
/// than the ttl, because the server's clock may run fast. At least half a second more is added. So
/// a heartbeat also confirms renewals that begin shortly after it, and one heartbeat serves many
/// locks.
fn lasts(ttl: u64) -> Duration {
    Duration::from_secs((ttl * 10_102 + 5_000).div_ceil(10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ttl_fits_into_its_class() {
        let mut shortest = Duration::ZERO;
        for ttl in TTLS.map(Duration::from_secs) {
            let lasts = lasts(ttl.as_secs());
            assert!(ttl <= Timeout(lasts).usable(), "{ttl:?} in {lasts:?}");
            assert!(
                lasts <= ttl * 11 / 10 + Duration::from_secs(1),
                "{ttl:?} in {lasts:?}"
            );
            assert!(shortest < lasts, "{ttl:?} in {lasts:?}");
            shortest = lasts;
        }
    }
}
