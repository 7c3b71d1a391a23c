//! The spans of a lock, as an OpenTelemetry collector receives them.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use leasehold_tests::wait;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::harness::http::{self, Answer};
use super::harness::service::Service;
use super::harness::{LIMIT, Surroundings};

const PROGRAM: &str = env!("CARGO_BIN_EXE_traced_orders");
/// The id of a caller's trace. `CALLER` is the id of the caller's span in each trace.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const OTHER_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Receives spans over OTLP, like a collector.
struct Collector {
    address: String,
    spans: Arc<Mutex<Vec<Span>>>,
    _runtime: tokio::runtime::Runtime,
}

struct Traces(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Traces {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        let spans = scopes.flat_map(|scope| scope.spans);
        self.0.lock().expect("no panic").extend(spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("sockets can be");
        let address = listener.local_addr().expect("it listens").to_string();
        let spans = Arc::new(Mutex::new(Vec::new()));
        let service = TraceServiceServer::new(Traces(Arc::clone(&spans)));
        let incoming = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map(TcpIncoming::from)
        };
        let serving = Server::builder().add_service(service);
        runtime.spawn(serving.serve_with_incoming(incoming.expect("it listens")));
        Self {
            address,
            spans,
            _runtime: runtime,
        }
    }

    /// Returns the spans of a trace, in the order of their start.
    fn trace(&self, id: &str) -> Vec<Span> {
        let spans = self.spans.lock().expect("no panic");
        let of_trace = spans.iter().filter(|span| hex(&span.trace_id) == id);
        let mut of_trace: Vec<_> = of_trace.cloned().collect();
        of_trace.sort_by_key(|span| span.start_time_unix_nano);
        of_trace
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes all");
        hex
    })
}

fn serve(shop: &Surroundings, collector: &Collector) -> Service {
    let mut service = None;
    wait::until("the service listens", LIMIT, || {
        let mut command = shop.command(PROGRAM, &[]);
        let endpoint = format!("http://{}", collector.address);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
        service = Service::listening(&mut command).ok();
        service.is_some()
    });
    service.expect("it listens")
}

fn click(service: &Service, trace: &str) -> Answer {
    let headers = format!("traceparent: 00-{trace}-{CALLER}-01\r\n");
    http::send_with(service.address(), "POST /orders/42", &headers, "")
}

/// Returns the only span with this name. Panics if there is none, or more than one.
fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut of_name = spans.iter().filter(|span| span.name == name);
    let span = of_name.next();
    assert!(of_name.next().is_none(), "two of {name}");
    span.unwrap_or_else(|| panic!("no {name} in {spans:#?}"))
}

fn text(span: &Span, name: &str) -> Option<String> {
    let attribute = span.attributes.iter().find(|given| given.key == name)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}

fn assert_outcome(span: &Span, outcome: &str) {
    assert_eq!(text(span, "lock.outcome").as_deref(), Some(outcome));
    assert_eq!(text(span, "lock.template").as_deref(), Some("order:<id>"));
    assert_eq!(text(span, "lock.key"), None, "a key is private");
}

#[test]
fn the_lock_appears_in_the_trace_of_the_request() {
    let (shop, collector) = (Surroundings::start(), Collector::start());
    let service = serve(&shop, &collector);
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| click(&service, TRACE));
        let charge = shop.provider.asked_for("42");
        let second = click(&service, OTHER_TRACE);
        charge.pay();
        (first.join().expect("no panic"), second)
    });
    assert_eq!((first.status, second.status), (201, 409));
    service.ask_to_stop();
    let ended = service.wait();
    assert!(ended.status.success(), "{ended:?}");

    let spans = collector.trace(TRACE);
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        ["request", "leasehold::acquire", "leasehold::held", "charge"]
    );
    let [request, acquire, held, charge] = [0, 1, 2, 3].map(|at| &spans[at]);
    assert_eq!(hex(&request.parent_span_id), CALLER);
    assert_eq!(acquire.parent_span_id, request.span_id);
    assert_eq!(held.parent_span_id, request.span_id);
    assert_eq!(charge.parent_span_id, held.span_id, "inside of the lock");
    assert!(acquire.end_time_unix_nano <= charge.start_time_unix_nano);
    assert!(held.start_time_unix_nano <= charge.start_time_unix_nano);
    assert!(charge.end_time_unix_nano <= held.end_time_unix_nano);
    assert!(held.end_time_unix_nano <= request.end_time_unix_nano);
    assert_outcome(acquire, "granted");
    assert_outcome(held, "released");
    assert!(text(held, "lock.fence").is_some(), "{held:#?}");

    let refused = collector.trace(OTHER_TRACE);
    assert_eq!(refused.len(), 2, "{refused:#?}");
    let (request, acquire) = (
        named(&refused, "request"),
        named(&refused, "leasehold::acquire"),
    );
    assert_eq!(acquire.parent_span_id, request.span_id);
    assert_outcome(acquire, "contended");
}

/// An unavailable collector affects neither orders nor locks.
#[test]
fn orders_are_made_without_a_collector() {
    let shop = Surroundings::start();
    let collector = Collector {
        address: "127.0.0.1:9".to_owned(),
        ..Collector::start()
    };
    let service = serve(&shop, &collector);
    let answer = thread::scope(|scope| {
        let first = scope.spawn(|| click(&service, TRACE));
        shop.provider.asked_for("42").pay();
        first.join().expect("no panic")
    });
    assert_eq!(answer.status, 201);
    assert_eq!(shop.redis.probe().get("lock:order:42"), None);
}
