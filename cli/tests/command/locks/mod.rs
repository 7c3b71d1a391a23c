//! `leasehold ls`, `show`, `watch` and `release`.

mod control_characters;
mod listing;
mod long_texts;
mod releasing;
mod scene;
mod session_servers;
mod terminal;
mod watching;
