//! Jobs that only one of several machines runs: cron, migrations, and a long export.

use std::time::Duration;

use leasehold::testing::Kit;
use leasehold::{LockError, distributed_lock};
use tokio::time::sleep;

use super::{Table, finish, round_trip};
use crate::{is_contended, is_lost, secs};

#[derive(Default)]
struct Nightly(Table<u32>);

impl Nightly {
    #[distributed_lock(
        key = "job:<day>",
        ttl = "5s",
        watchdog,
        max_hold = "1h",
        cooldown = "12h"
    )]
    async fn run(&self, day: &str, takes: Duration) -> Result<(), LockError> {
        assert!(!day.is_empty());
        sleep(takes).await;
        *self.0.rows() += 1;
        Ok(())
    }
}

#[derive(Default)]
struct Migrations(Table<Vec<&'static str>>);

impl Migrations {
    #[distributed_lock(key = "migrations", ttl = "30s", watchdog, wait = "10m")]
    async fn run(&self) -> Result<(), LockError> {
        for step in ["users", "orders"] {
            let done = self.0.rows().contains(&step);
            round_trip().await;
            if !done {
                self.0.rows().push(step);
            }
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn one_machine_runs_the_job() {
    let (kit, job) = (Kit::new(), Nightly::default());
    let machines = async {
        let run = || job.run("monday", secs(60));
        tokio::join!(run(), run(), run())
    };
    let (one, two, three) = kit.scope(machines).await;
    assert!(one.is_ok() && is_contended(&two) && is_contended(&three));
    assert_eq!(*job.0.rows(), 1);
    finish(&kit, "one_machine_runs_the_job");
}

#[tokio::test(start_paused = true)]
async fn a_late_machine_skips_the_job() {
    let (kit, job) = (Kit::new(), Nightly::default());
    assert!(kit.scope(job.run("monday", secs(1))).await.is_ok());
    sleep(secs(11 * 3600)).await;
    assert!(is_contended(&kit.scope(job.run("monday", secs(1))).await));
    assert!(kit.scope(job.run("tuesday", secs(1))).await.is_ok());
    finish(&kit, "a_late_machine_skips_the_job");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_job_is_ended() {
    let (kit, job) = (Kit::new(), Nightly::default());
    assert!(is_lost(&kit.scope(job.run("monday", secs(7200))).await));
    assert_eq!(*job.0.rows(), 0);
    assert!(kit.scope(job.run("monday", secs(1))).await.is_ok());
    finish(&kit, "a_hanging_job_is_ended");
}

#[tokio::test(start_paused = true)]
async fn a_job_outlives_a_short_outage() {
    let (kit, job) = (Kit::new(), Nightly::default());
    let outage = async {
        sleep(secs(10)).await;
        kit.store_down();
        sleep(secs(2)).await;
        kit.store_up();
    };
    let (ended, ()) = tokio::join!(kit.scope(job.run("monday", secs(60))), outage);
    assert_eq!(ended, Ok(()));
    finish(&kit, "a_job_outlives_a_short_outage");
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_with_a_long_outage() {
    let (kit, job) = (Kit::new(), Nightly::default());
    let outage = async {
        sleep(secs(10)).await;
        kit.store_down();
    };
    let (ended, ()) = tokio::join!(kit.scope(job.run("monday", secs(60))), outage);
    assert!(is_lost(&ended));
    finish(&kit, "a_job_ends_with_a_long_outage");
}

#[tokio::test(start_paused = true)]
async fn four_replicas_migrate_once() {
    let (kit, migrations) = (Kit::new(), Migrations::default());
    let replicas = async {
        tokio::join!(
            migrations.run(),
            migrations.run(),
            migrations.run(),
            migrations.run()
        )
    };
    let ended = kit.scope(replicas).await;
    assert_eq!(ended, (Ok(()), Ok(()), Ok(()), Ok(())));
    assert_eq!(*migrations.0.rows(), ["users", "orders"]);
    finish(&kit, "four_replicas_migrate_once");
}

#[tokio::test(start_paused = true)]
async fn a_replica_waits_for_a_long_migration_elsewhere() {
    let (kit, migrations) = (Kit::new(), Migrations::default());
    let _other = kit.hold("migrations").releases_after(secs(300)).await;
    assert_eq!(kit.scope(migrations.run()).await, Ok(()));
    finish(&kit, "a_replica_waits_for_a_long_migration_elsewhere");
}
