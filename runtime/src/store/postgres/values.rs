//! Writes keys, tokens and times in the server's formats.

use std::error::Error;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::base::full_key::FullKey;
use crate::base::token::Token;

type Written = Result<IsNull, Box<dyn Error + Sync + Send>>;

/// Returns whole milliseconds, rounded up: a lease may last longer on the server than the holder
/// counts, but never shorter.
pub(super) fn millis(span: Duration) -> i32 {
    let up = span.as_nanos().div_ceil(1_000_000);
    i32::try_from(up).unwrap_or(i32::MAX)
}

/// A key is written as a `text`.
impl ToSql for FullKey {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Written {
        <&str>::to_sql(&&**self, kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <&str>::accepts(kind)
    }

    to_sql_checked!();
}

/// A token is written as a `uuid`. It lacks the version field of RFC 9562, which PostgreSQL does
/// not check.
impl ToSql for Token {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Written {
        out.put_u128(self.bits());
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }

    to_sql_checked!();
}
