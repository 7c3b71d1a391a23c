//! The code that `tonic-prost-build` generates from this file, `shop.proto`:
//!
//! ```proto
//! syntax = "proto3";
//! package shop;
//!
//! message NewOrder { string id = 1; }
//! message Order { string id = 1; }
//!
//! service Orders { rpc Create (NewOrder) returns (Order); }
//! ```
//!
//! The messages are written by hand, and `build.rs` generates the rest, so a build needs no
//! `protoc`.

#![allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    reason = "it is the code that tonic generates"
)]

#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct NewOrder {
    #[prost(string, tag = "1")]
    pub id: String,
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Order {
    #[prost(string, tag = "1")]
    pub id: String,
}

include!(concat!(env!("OUT_DIR"), "/shop.Orders.rs"));
