//! The expansion tests in edition 2021; see `../tests/expansion`.
