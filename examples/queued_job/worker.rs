//! The worker: adopts the lock of a job, does the job inside it, and releases it.

use std::error::Error;
use std::io;

use leasehold::{LockError, LockGuard};
use leasehold_services::{payments, stop_requested};

use crate::Job;
use crate::orders::Orders;
use crate::queue::Queue;

/// Returns the lock of a job: the lock that the handler has handed over with the job, on the same
/// lease.
///
/// This lock may be gone: the job was on the queue for longer than a ttl, or its first worker
/// adopted the lock and died. Then this worker acquires the lock like any other call. The call is
/// refused while another worker does the job, or while a later click has the order's lock.
async fn lock_of(job: &Job) -> Result<LockGuard, LockError> {
    let pool = leasehold::pool()?;
    match pool.adopt(job.lock.clone()).await {
        Err(error) if error.is_lost() => {
            let request = pool.lock(job.lock.key()).ttl(job.lock.ttl());
            request.watchdog().acquire().await
        }
        adopted => adopted,
    }
}

/// Does the job while the lease lasts.
///
/// An earlier worker may have done the job, and died before it removed the job from the queue. Or
/// it may have died between the payment and the order. So the provider must identify orders by
/// their id, and charge only once.
async fn make(job: &Job, lock: &LockGuard, orders: &Orders) -> Result<(), JobError> {
    let work = async {
        if !orders.is_made(&job.order).await? {
            payments::charge(&job.order).await?;
            orders.make(&job.order).await?;
        }
        Ok(())
    };
    tokio::select! {
        biased; // a worker that stood still looks at its lease first
        () = lock.lost() => Err(JobError::Lost),
        made = work => made,
    }
}

#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error("the lease was lost, and the job was stopped")]
    Lost,
    #[error("the payment provider: {0}")]
    Payment(#[from] io::Error),
    #[error(transparent)]
    Redis(#[from] redis::RedisError),
}

/// Does one job to its end. Removes a finished job from the queue, and then releases the lock. A
/// failed job stays on the queue, and is delivered again.
async fn do_job(id: &str, job: &Job, queue: &mut Queue, orders: &Orders) {
    let order = &job.order;
    let lock = match lock_of(job).await {
        Ok(lock) => lock,
        Err(error) => return println!("order {order}: not now: {error}"),
    };
    let made = make(job, &lock, orders).await;
    let outcome = match made {
        Ok(()) => queue.done(id).await.map_err(JobError::Redis),
        Err(error) => Err(error),
    };
    let released = lock.release().await;
    match outcome {
        Ok(()) => println!("order {order} is made"),
        Err(error) => println!("order {order}: it comes again: {error}"),
    }
    if let Err(error) = released {
        eprintln!("order {order}: {error}");
    }
}

/// Does jobs one after another until the process receives a stop signal. Finishes the current job
/// before it ends.
pub(crate) async fn work(redis: &redis::Client, name: &str) -> Result<(), Box<dyn Error>> {
    let mut queue = Queue::open(redis).await?;
    let orders = Orders::open(redis).await?;
    let mut stop = std::pin::pin!(stop_requested()?);
    println!("worker {name} is ready");
    loop {
        let next = tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            next = queue.next(name) => next?,
        };
        if let Some((id, job)) = next {
            do_job(&id, &job, &mut queue, &orders).await;
        }
    }
}
