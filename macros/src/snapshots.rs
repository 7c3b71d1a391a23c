//! Compares expansions of the attribute with stored files.
//! `UPDATE_SNAPSHOTS=1 cargo test -p leasehold-macros` rewrites the files.

use std::path::Path;

use proc_macro2::TokenStream;

/// Returns the formatted expansion. The formatter does not format the arguments of a macro, so the
/// snapshot shows `pin!(…)` as the call `pin(…)`.
fn expand(source: &str) -> String {
    let (args, item) = source.split_once('\n').expect("options in the first line");
    let tokens = |text: &str| text.parse::<TokenStream>().expect("tokens");
    let expanded = crate::attribute(tokens(args), &tokens(item)).to_string();
    let expanded = expanded.replace("pin ! (", "pin (");
    prettyplease::unparse(&syn::parse_str(&expanded).expect("the expansion is Rust"))
}

fn check(name: &str, source: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/snapshots/{name}.txt"));
    let actual = format!("{}\n\n{}", source.trim(), expand(source.trim()));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&file, &actual).expect("the snapshot can be written");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(actual == expected, "{} differs:\n{actual}", file.display());
}

#[test]
fn free_function() {
    check(
        "free_function",
        r#"
key = "order:<id>", ttl = "10s", watchdog
pub async fn create(id: u64, unused: u8, _permit: Permit) -> Result<Order, Error> {
    Ok(Order::new(id).await)
}
"#,
    );
}

#[test]
fn every_option() {
    check(
        "every_option",
        r#"
key = "{<self.tenant()>}:<pair.0>", ttl = TTL, watchdog = "3s", max_hold = "1m", wait = self.wait, cooldown = "3s", min_hold = "10s", reentrant, on_lost = "continue", on_error = Err, guard = lock, pool = self.locks
async fn take(&self, pair: (u64, u64)) -> Result<impl Display, Error> {
    lock.check()?;
    self.store.take(pair.0).await
}
"#,
    );
}

#[test]
fn under_async_trait() {
    check(
        "under_async_trait",
        r#"
key = "<self.region>:<id>", ttl = "10s"
fn save<'life0, 'async_trait>(
    &'life0 self,
    __arg1: (u64, u64),
) -> Pin<Box<dyn Future<Output = Result<u64, Error>> + Send + 'async_trait>> {
    Box::pin(async move {
        if let Some(__ret) = None::<Result<u64, Error>> {
            return __ret;
        }
        let __self = self;
        let (id, other) = { let __arg1 = __arg1; __arg1 };
        let __ret: Result<u64, Error> = { __self.store(id + other).await };
        __ret
    })
}
"#,
    );
}

#[test]
fn detached() {
    check(
        "detached",
        r#"
key = "order:<id>", ttl = "10s", detach, guard = lock
async fn create(self: Arc<Self>, id: u64) -> Result<impl Display, Error> {
    self.store(id, lock.fence()).await
}
"#,
    );
}

#[cfg(feature = "replay")]
#[test]
fn replaying() {
    check(
        "replaying",
        r#"
key = "order:<id>", ttl = "10s", replay = "24h", fingerprint = (&cart, self.shop)
async fn create(&self, id: u64, cart: Cart) -> Result<Order, Error> {
    self.store(id, cart).await
}
"#,
    );
}

#[test]
fn several_keys() {
    check(
        "several_keys",
        r#"
key = ["account:<from>", account(to)], ttl = "5s"
async fn transfer(from: u64, to: &Account) -> Result<(), Error> {
    book(from, to).await
}
"#,
    );
}

#[test]
fn blocking() {
    check(
        "blocking",
        r#"
key = "report:<day>", ttl = "10s", guard = lock
pub unsafe fn write(&mut self, day: u32) -> Result<&mut Report, Error> {
    lock.check()?;
    Ok(self.pages(day))
}
"#,
    );
}

#[test]
fn never_returns() {
    check(
        "never_returns",
        r#"
key = name(), ttl = "1s", pool = "workers", on_error = fail
async fn work() -> ! {
    loop { tick().await }
}
"#,
    );
}

#[test]
fn an_error_keeps_the_function() {
    check(
        "an_error_keeps_the_function",
        r#"
key = "order:<oder>", tll = "10s"
async fn create(order: u64) -> Result<(), Error> {
    Ok(())
}
"#,
    );
}
