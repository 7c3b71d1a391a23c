use leasehold::distributed_lock;

#[distributed_lock(key = "page", ttl = "10s", cooldown = "3s", on_error = move |_| page)]
async fn show<P: Copy>(page: P) -> P {
    page
}

fn main() {}
