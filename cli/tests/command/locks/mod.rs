//! `leasehold ls`, `show`, `watch` and `release`.

mod listing;
mod odd_texts;
mod releasing;
mod scene;
mod session_servers;
mod watching;
