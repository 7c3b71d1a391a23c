//! The compiler's messages for each misuse of the attribute; see `tests/ui`.
