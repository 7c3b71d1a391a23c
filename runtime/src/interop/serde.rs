//! [`Fence`] as a plain number, for serde.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fence::Fence;

impl Serialize for Fence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

impl<'de> Deserialize<'de> for Fence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, U64Deserializer};

    #[test]
    fn a_fence_is_a_number() {
        let number: U64Deserializer<Error> = 42_u64.into_deserializer();
        assert_eq!(Fence::deserialize(number).unwrap(), Fence::new(42));
    }
}
