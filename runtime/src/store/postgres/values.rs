//! Keys and tokens as the server reads them.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::base::full_key::FullKey;
use crate::base::token::Token;

type Written = Result<IsNull, Box<dyn Error + Sync + Send>>;

/// A key is a `text`.
impl ToSql for FullKey {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Written {
        <&str>::to_sql(&&**self, kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <&str>::accepts(kind)
    }

    to_sql_checked!();
}

/// A token is a `uuid`, although none of the kinds that RFC 9562 knows.
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
