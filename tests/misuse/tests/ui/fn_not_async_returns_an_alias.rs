use leasehold::{LockError, distributed_lock};

struct Service;

trait Call {
    type Future;
    fn call(&mut self, id: u64) -> Self::Future;
}

impl Call for Service {
    type Future = std::future::Ready<Result<u64, LockError>>;

    #[distributed_lock(key = "order:<id>", ttl = "10s", on_error = |error| std::future::ready(Err(error)))]
    fn call(&mut self, id: u64) -> Self::Future {
        std::future::ready(Ok(id))
    }
}

fn main() {}
