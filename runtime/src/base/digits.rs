//! Parsing of digits in texts from users and servers. Unlike the standard library's
//! `from_str_radix`, these functions accept no sign.

/// Parses a hexadecimal number. None if the text is not a hexadecimal number, or if the number does
/// not fit into 64 bits.
#[cfg(any(feature = "redis", feature = "postgres", feature = "etcd"))]
pub(crate) fn hexadecimal(digits: &str) -> Option<u64> {
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Decodes percent-encoded text. None if the encoding is invalid.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(any(feature = "redis", feature = "postgres", feature = "etcd"))]
    fn a_sign_is_not_a_digit() {
        use super::hexadecimal;

        assert_eq!(hexadecimal("00fF"), Some(255));
        for wrong in ["", "+f", "-f", "g", "10000000000000000"] {
            assert_eq!(hexadecimal(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_percent_sign_needs_two_digits() {
        use super::percent_decoded;

        assert_eq!(percent_decoded("a%2Fb%c3%A9").as_deref(), Some("a/bé"));
        for wrong in ["%", "%2", "%+5", "%-5", "%zz", "%ff"] {
            assert_eq!(percent_decoded(wrong), None, "{wrong}");
        }
    }
}
