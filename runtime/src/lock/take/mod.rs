//! Taking the locks of a call: its settings, its requests, and the locks that it then holds.

pub(crate) mod acquire;
pub(crate) mod blocking;
pub(crate) mod held;
pub(crate) mod observed;
pub(crate) mod pending;
pub(crate) mod settings;
