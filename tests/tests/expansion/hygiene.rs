//! Names in the user's code that equal names in the expansion. The expansion must not refer to the
//! user's items by mistake.
#![allow(
    dead_code,
    unused_macros,
    non_camel_case_types,
    clippy::enum_variant_names
)]

use super::support::{locked, tick};

mod core {}
mod std {}
mod alloc {}
mod tokio_shadow {}
mod leasehold {}

struct Result;
struct Option;
struct Some;
struct None;
struct Ok;
struct Err;
struct Call;
struct Key;
struct Duration;
struct Box;
trait From {}
trait Future {}

macro_rules! concat {
    ($($token:tt)*) => {
        compile_error!("the user's `concat!`")
    };
}
macro_rules! pin {
    ($($token:tt)*) => {
        compile_error!("the user's `pin!`")
    };
}

type Answer = ::std::result::Result<u8, ::leasehold::LockError>;

#[::leasehold::distributed_lock(key = "a:<key>:<call>", ttl = "1s", guard = out)]
async fn names(key: u8, call: u8, error: u8, body: u8) -> Answer {
    tick().await;
    out.check()?;
    let __leasehold_out = 1;
    ::std::result::Result::Ok(key + call + error + body + __leasehold_out)
}

#[::leasehold::distributed_lock(key = "a", ttl = "1s")]
async fn prefixed(__leasehold_key: u8, __leasehold_call: u8) -> Answer {
    tick().await;
    ::std::result::Result::Ok(__leasehold_key + __leasehold_call)
}

#[tokio::test]
async fn names_of_the_expansion_cannot_clash() {
    locked(async {
        assert_eq!(names(1, 2, 3, 4).await, ::std::result::Result::Ok(11));
        assert_eq!(prefixed(1, 2).await, ::std::result::Result::Ok(3));
    })
    .await;
}
