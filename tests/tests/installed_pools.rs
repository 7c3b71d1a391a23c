//! Tests of installed, named and scoped pools. They are in a separate program, because installed
//! pools belong to the process.

use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool, distributed_lock};

const TTL: Duration = Duration::from_secs(20);

async fn connect(url: &str) -> LockPool {
    LockPool::connect(url).await.expect("it opens")
}

async fn take(pool: &LockPool, key: &str) -> LockGuard {
    pool.lock(key).ttl(TTL).acquire().await.expect("free")
}

#[distributed_lock(key = "<key>", ttl = "20s")]
async fn installed(key: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "<key>", ttl = "20s", pool = "inventory")]
async fn named(key: &str) -> Result<(), LockError> {
    Ok(())
}

/// Takes the same lock as `installed`, with the builder instead of the attribute.
async fn by_hand(key: &str) -> Result<(), LockError> {
    let guard = leasehold::pool()?.lock(key).ttl(TTL).acquire().await?;
    guard.release().await
}

fn contended(ended: &Result<(), LockError>) -> bool {
    matches!(ended, Err(LockError::Contended { .. }))
}

#[tokio::test]
async fn installed_named_and_scoped_pools_are_selected() {
    assert_eq!(installed("k").await, Err(LockError::NotInstalled));
    assert_eq!(by_hand("k").await, Err(LockError::NotInstalled));
    let error = named("k").await.expect_err("none has this name");
    assert!(error.to_string().contains("inventory"), "{error}");

    let main = connect("memory://pools-main").await;
    let inventory = connect("memory://pools-inventory").await;
    let tenant = connect("memory://pools-tenant").await;
    let _main_holds = take(&main, "main").await;
    let _inventory_holds = take(&inventory, "inventory").await;
    let _tenant_holds = take(&tenant, "tenant").await;

    // A scope needs no installed pool.
    assert!(contended(&tenant.scope(installed("tenant")).await));
    assert!(contended(&tenant.scope(by_hand("tenant")).await));

    main.install().expect("the first");
    inventory
        .install_as("inventory")
        .expect("the first of its name");
    for key in ["main", "inventory", "tenant"] {
        assert_eq!(contended(&installed(key).await), key == "main");
        assert_eq!(contended(&by_hand(key).await), key == "main");
        assert_eq!(contended(&named(key).await), key == "inventory");
        let scoped = tenant.scope(installed(key)).await;
        assert_eq!(contended(&scoped), key == "tenant");
        let scoped = tenant.scope(by_hand(key)).await;
        assert_eq!(contended(&scoped), key == "tenant");
        let nested = tenant.scope(async { main.scope(installed(key)).await });
        assert_eq!(contended(&nested.await), key == "main");
        // Outside of the scope, the installed pool is used again.
        assert_eq!(contended(&installed(key).await), key == "main");
    }

    for again in [
        main.install(),
        tenant.install(),
        tenant.install_as("inventory"),
    ] {
        let error = again.expect_err("there is one already");
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        assert!(error.to_string().contains("already"), "{error}");
        assert!(error.to_string().contains("install"), "{error}");
    }
    assert!(contended(&installed("main").await), "the first stays");

    // A pool with two names counts once.
    main.install_as("main again").expect("a further name");
    let report = leasehold::shutdown(Duration::from_millis(200)).await;
    assert_eq!(report.still_held, 2, "{report:?}");
    assert_eq!(installed("k").await, Err(LockError::ShuttingDown));
    assert_eq!(named("k").await, Err(LockError::ShuttingDown));
    assert_eq!(tenant.scope(installed("k")).await, Ok(()));
}
