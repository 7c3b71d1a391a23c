use leasehold::distributed_lock;

struct Page;

#[distributed_lock(key = "page", ttl = "10s", cooldown = "3s", on_error = |_| Page)]
async fn page() -> Page {
    Page
}

fn main() {}
