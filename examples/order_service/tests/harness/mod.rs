//! What the tests start, and stop again: order services, and requests to them.

pub(crate) mod http;
pub(crate) mod service;
