//! Order services that the tests start and stop, and requests to them.

pub(crate) mod http;
pub(crate) mod service;
