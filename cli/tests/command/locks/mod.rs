//! `leasehold ls`, `show`, `watch` and `release`.

mod control_characters;
mod listing;
mod releasing;
mod scene;
mod session_servers;
mod terminal;
mod watching;
