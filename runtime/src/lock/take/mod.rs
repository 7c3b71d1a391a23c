//! Taking the locks of a call, from its settings to the locks that it has.

pub(crate) mod acquire;
pub(crate) mod blocking;
pub(crate) mod held;
pub(crate) mod observed;
pub(crate) mod pending;
pub(crate) mod settings;
