//! Conversions of `printf` and `strftime`, such as `%s`, `%d`, `%1$s`, `%Y`. They have no meaning
//! in a key.

const CONVERSIONS: &str = "sdiuvfxXoqcgepTYmH@";

/// Returns the conversion at the start of `rest`.
pub(crate) fn conversion(rest: &str) -> Option<&str> {
    let after = rest.strip_prefix('%')?;
    let flags = after
        .find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '#' | '.' | '$' | 'l' | 'h' | 'z'))
        .unwrap_or(after.len());
    let conversion = after[flags..].chars().next()?;
    let length = 1 + flags + conversion.len_utf8();
    let ends = !rest[length..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    (CONVERSIONS.contains(conversion) && ends && !is_encoded(after)).then(|| &rest[..length])
}

/// True if `%` and the first two characters of `after` are a percent-encoded character, such as
/// `%3d` for `=`. False for the `%02` of `%02d`, a control character, which no key contains on
/// purpose.
fn is_encoded(after: &str) -> bool {
    let Some(digits) = after.get(..2) else {
        return false;
    };
    u8::from_str_radix(digits, 16).is_ok_and(|byte| byte >= b' ')
}
