//! The code of a gRPC service. A real shop defines such a service in a file `shop.proto`:
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
//! A real service lets `tonic-prost-build` generate all of this code, which needs the program
//! `protoc`. Here, the messages are written by hand and `build.rs` generates the rest, so that a
//! build needs no `protoc`.

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
