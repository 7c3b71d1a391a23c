//! A scene for each server: the connection of a process with many waiting calls is cut. One packet
//! cannot carry the requests of all these calls.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool};
use tokio::task::JoinSet;

use super::tenants::{TTL, Tenants};
use crate::chaos::ground::connect;
use crate::chaos::sheet::Sheet;
use crate::pipe::Pipe;

pub(super) const SCENE: &str = "many calls wait, and the connection is cut";

const TENANTS: usize = 20;
/// The ttl of the leases held during the cuts. It is long, because the many calls need some time to
/// send their requests again after a cut.
const CROWDED: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);

/// Cuts the connection of a process twice while `many` of its calls wait. The process must keep its
/// leases, and each call must get its lock in the end. `url` reaches the server through a proxy
/// that can be cut, and `direct` without a proxy.
pub(super) fn is_cut(
    sheet: &Sheet,
    server: SocketAddr,
    url: impl Fn(&Pipe) -> String,
    direct: &str,
    many: u64,
) {
    let pipe = Pipe::start(server);
    let tenants = Tenants::move_in_for(CROWDED, &url(&pipe), TENANTS);
    let crowd = crowd(&tenants, direct, &long_names(many));
    pipe.cut();
    sleep(TTL);
    pipe.cut();
    sleep(CROWDED * 3 / 2);
    tenants.last(sheet, SCENE);
    crowd.let_in(&tenants, sheet);
}

/// Returns `many` names of 480 bytes each.
fn long_names(many: u64) -> Vec<String> {
    let name = |number| format!("{number:05}-{}", "w".repeat(474));
    (0..many).map(name).collect()
}

/// The waiting calls of the process under test (`Tenants`), and the locks that another process
/// holds until [`let_in`](Self::let_in).
struct Crowd {
    held: Vec<LockGuard>,
    waits: JoinSet<Option<LockError>>,
    _other: LockPool,
}

/// Makes another process hold a lock for each of these names. For each lock, starts one waiting
/// call of the process under test (`tenants`).
fn crowd(tenants: &Tenants, url: &str, names: &[String]) -> Crowd {
    tenants.runtime.block_on(async {
        let other = connect(url).await;
        let mut held = Vec::new();
        for part in names.chunks(50) {
            let mut asked = JoinSet::new();
            for name in part {
                let asks = other.lock(name).ttl(CROWDED).wait(LONG).watchdog();
                asked.spawn(asks.acquire());
            }
            for taken in asked.join_all().await {
                held.push(taken.expect("it is free"));
            }
        }
        let mut waits = JoinSet::new();
        for name in names {
            // All calls get their locks at once, so a short lease could end before its call runs.
            let asks = tenants.pool.lock(name).ttl(LONG / 2).wait(LONG * 2);
            waits.spawn(async move { asks.acquire().await.err() });
        }
        // By the end of this sleep, each call has sent its request.
        tokio::time::sleep(TTL).await;
        Crowd {
            held,
            waits,
            _other: other,
        }
    })
}

impl Crowd {
    /// Releases the held locks. Fails unless each waiting call then gets its lock.
    fn let_in(self, tenants: &Tenants, sheet: &Sheet) {
        let many = self.held.len();
        let mut waits = self.waits;
        let let_in = tenants.runtime.block_on(async {
            drop(self.held);
            let (mut let_in, mut refused) = (0, Vec::new());
            let all = async {
                while let Some(ended) = waits.join_next().await {
                    match ended.expect("no panic") {
                        None => let_in += 1,
                        Some(error) => refused.push(error),
                    }
                }
            };
            // After a time-out, `let_in` is smaller than `many`, so the check below fails.
            let _ = tokio::time::timeout(LONG, all).await;
            (let_in, refused)
        });
        let (let_in, refused) = let_in;
        sheet.check(let_in == many, || {
            format!("{SCENE}: {let_in} of {many} waiting calls came in; refused: {refused:?}")
        });
    }
}
