//! Which ttls have a lease in common.

use std::time::Duration;

use crate::store::session::service::Timeout;

/// The ttls that leases are made for, in seconds. Each lease lasts little longer, so that a lock
/// outlives its dead holder for little longer than its ttl.
const TTLS: [u64; 17] = [
    1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400,
];

/// How long the leases for these ttls last.
pub(super) fn all() -> Vec<Timeout> {
    TTLS.iter().map(|ttl| Timeout(lasts(*ttl))).collect()
}

/// How long a session for leases of so many seconds is to last: longer by one hundredth, because
/// the server's clock may be fast, and by half a second, so that one heartbeat serves many.
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
