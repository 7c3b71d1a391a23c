//! Generates the traits and the client of the gRPC service `shop.Orders`.
//!
//! A service with a `.proto` file needs only one line here, and the program `protoc`:
//! `tonic_prost_build::compile_protos("shop.proto")`. The generated code is the same.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let create = Method::builder()
        .name("create")
        .route_name("Create")
        .input_type("super::NewOrder")
        .output_type("super::Order")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    let orders = Service::builder()
        .name("Orders")
        .package("shop")
        .method(create)
        .build();
    Builder::new().compile(&[orders]);
}
