//! What the compiler says about each misuse of the attribute; see `tests/ui`.
