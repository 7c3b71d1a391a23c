//! One connection to one member of the cluster, and its requests.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, ready, select};
use futures_util::stream::{self, StreamExt};
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::{self, oneshot};
use tokio::time::{Instant, timeout};
use tonic::client::Grpc;
use tonic::codec::Streaming;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::address::Address;
use super::failure::{self, Problem};
use super::messages::{
    AuthenticateRequest, AuthenticateResponse, Event, GrantRequest, GrantResponse,
    KeepAliveResponse, KeyValue, LeaseId, MemberListResponse, NO_PUT, Nothing, RangeRequest,
    RangeResponse, StatusResponse, TimeToLiveResponse, TxnRequest, TxnResponse, WatchCreate,
    WatchRequest, WatchResponse,
};
use super::{PROBE, PROBE_EVERY, PROBES};
use crate::base::seeded::seeded;
use crate::store::session::members::Access;
use crate::store::{Failure, login};

/// Least time to wait for an answer, even if the request's `patience` is shorter. The server
/// answers only after it has written the change to its disk, which may be busy.
pub(super) const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// Interval of the pings on a connection with open requests or watches, and the time limit for
/// their answers. A server answers pings even while its disk is busy, so a slow server is not
/// mistaken for a dead one. By default, etcd closes a connection on which pings come more often
/// than every 5 s, or come without an open request.
const PING: Duration = Duration::from_secs(6);
const PONG: Duration = Duration::from_secs(2);

/// Time without any answer to a request after which a connection is given up, even if pings are
/// answered. The member may have lost contact with the cluster, and another member may work.
const DEAD: Duration = Duration::from_secs(3);

/// One connection to one member.
pub(super) struct Connection {
    /// Index of the member in the URL.
    pub(super) at: usize,
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
    /// Time at which the connection is replaced, with new credentials.
    pub(super) renew_at: Option<Instant>,
    unanswered: Mutex<Unanswered>,
    /// True once the client uses another connection.
    given_up: sync::watch::Sender<bool>,
}

/// The requests that wait for an answer.
#[derive(Default)]
struct Unanswered {
    count: u32,
    /// Start of the present silence: the time of the last answer, or of the first request if none
    /// was answered since. `None` if no request waits, unless the last one ended with a time-out.
    since: Option<Instant>,
}

/// A waiting request. It counts as unanswered until this value is dropped.
struct Waiting<'a>(&'a Mutex<Unanswered>);

impl<'a> Waiting<'a> {
    fn begin(unanswered: &'a Mutex<Unanswered>) -> Self {
        let mut waiting = unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.count += 1;
        waiting.since.get_or_insert_with(Instant::now);
        Self(unanswered)
    }

    fn answered(&self) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.since = Some(Instant::now());
    }

    /// Returns the time since the last answer, or since the first unanswered request.
    fn silence(&self) -> Duration {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting
            .since
            .map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Stops counting a timed-out request. Unlike `drop`, does not end the silence, because no
    /// answer has come.
    fn given_up(self) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.count -= 1;
        std::mem::forget(self);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.count -= 1;
        if waiting.count == 0 {
            waiting.since = None;
        }
    }
}

/// The present keys of a watched range, or a change of one of them.
pub(super) enum Shown<'a> {
    /// The keys that existed right after the start of the watch.
    Present(&'a [KeyValue]),
    Changed(&'a Event),
}

/// Adds the user's name to the failure of a refused login.
fn refused(failure: Failure, access: &Access) -> Failure {
    if !failure.text().contains(failure::REFUSED) {
        return failure;
    }
    login::refused(failure, &access.user, access.changes)
}

impl Connection {
    /// Connects to the member at index `at` of the URL, and logs in if there are credentials.
    pub(super) async fn open(
        address: &Address,
        at: usize,
        limit: Duration,
    ) -> Result<Self, Failure> {
        let opening = async {
            let uri = address.uri(at);
            let endpoint =
                Endpoint::from_shared(uri).map_err(|error| failure::of_transport(&error));
            let endpoint = endpoint?
                .connect_timeout(limit)
                .tcp_nodelay(true)
                .tcp_keepalive(Some(PROBE))
                .tcp_keepalive_interval(Some(PROBE_EVERY))
                .tcp_keepalive_retries(Some(PROBES))
                .http2_keep_alive_interval(PING)
                .keep_alive_timeout(PONG)
                .keep_alive_while_idle(false);
            #[cfg(feature = "tls")]
            let channel = match address.tls() {
                Some(tls) => tls.connect(endpoint).await,
                None => endpoint.connect().await,
            };
            #[cfg(not(feature = "tls"))]
            let channel = endpoint.connect().await;
            let mut connection = Self {
                at,
                channel: channel.map_err(|error| failure::of_transport(&error))?,
                token: None,
                renew_at: None,
                unanswered: Mutex::default(),
                given_up: sync::watch::Sender::default(),
            };
            // A suspended member still accepts connections. So the connection counts only after an
            // answer to a first request, which may be an error.
            match connection.status(limit).await {
                Err(problem) if address.is_encrypted() && failure::is_broken_by(&problem) => {
                    return Err(failure::of_first_question(&problem));
                }
                Err(problem) if failure::is_broken_by(&problem) => {
                    return Err(failure::of(&problem));
                }
                Ok(_) | Err(_) => {}
            }
            if let Some(access) = address.access(limit).await? {
                let request = AuthenticateRequest {
                    name: access.user.clone(),
                    password: access.password.clone(),
                };
                let token = connection.introduce(request, limit).await;
                connection.token = Some(token.map_err(|failure| refused(failure, &access))?);
                connection.renew_at = access.renew_at;
            }
            Ok(connection)
        };
        timeout(limit, opening)
            .await
            .unwrap_or_else(|_| Err(failure::silent()))
    }

    async fn introduce(
        &self,
        request: AuthenticateRequest,
        limit: Duration,
    ) -> Result<MetadataValue<Ascii>, Failure> {
        let path = "/etcdserverpb.Auth/Authenticate";
        let answer: AuthenticateResponse = self
            .unary(path, request, limit)
            .await
            .map_err(|problem| failure::of(&problem))?;
        answer.token.parse().map_err(|_| failure::garbled())
    }

    pub(super) async fn range(
        &self,
        request: RangeRequest,
        patience: Duration,
    ) -> Result<RangeResponse, Problem> {
        self.unary("/etcdserverpb.KV/Range", request, patience)
            .await
    }

    pub(super) async fn txn(
        &self,
        request: TxnRequest,
        patience: Duration,
    ) -> Result<TxnResponse, Problem> {
        self.unary("/etcdserverpb.KV/Txn", request, patience).await
    }

    pub(super) async fn grant(
        &self,
        request: GrantRequest,
        patience: Duration,
    ) -> Result<GrantResponse, Problem> {
        self.unary("/etcdserverpb.Lease/LeaseGrant", request, patience)
            .await
    }

    pub(super) async fn revoke(&self, lease: i64, patience: Duration) -> Result<Nothing, Problem> {
        let request = LeaseId { id: lease };
        self.unary("/etcdserverpb.Lease/LeaseRevoke", request, patience)
            .await
    }

    pub(super) async fn members(&self, patience: Duration) -> Result<MemberListResponse, Problem> {
        self.unary("/etcdserverpb.Cluster/MemberList", Nothing {}, patience)
            .await
    }

    pub(super) async fn status(&self, patience: Duration) -> Result<StatusResponse, Problem> {
        self.unary("/etcdserverpb.Maintenance/Status", Nothing {}, patience)
            .await
    }

    /// Sends one keep-alive for a lease.
    pub(super) async fn keep_alive(
        &self,
        lease: i64,
        patience: Duration,
    ) -> Result<KeepAliveResponse, Problem> {
        let asking = async {
            let once = stream::iter([LeaseId { id: lease }]);
            let path = "/etcdserverpb.Lease/LeaseKeepAlive";
            let mut answers: Streaming<KeepAliveResponse> = self.stream(path, once).await?;
            let answer = answers.message().await?;
            answer.ok_or_else(|| Status::unavailable("the stream ended without an answer"))
        };
        self.in_time(asking, patience).await
    }

    /// Waits until the key created at the revision `made` is gone, or until the watch ends. `place`
    /// is the caller's permit of a semaphore, which limits concurrent requests. It is dropped once
    /// the watch is set up, because the number of watches is not limited.
    pub(super) async fn deleted<P>(
        &self,
        key: Vec<u8>,
        made: i64,
        patience: Duration,
        place: P,
    ) -> Result<(), Problem> {
        let what = WatchCreate {
            key,
            range_end: Vec::new(),
            filters: vec![NO_PUT],
        };
        let mut place = Some(place);
        self.watch(what, patience, |shown| match shown {
            Shown::Present(found) => {
                place = None;
                found.iter().all(|found| found.create_revision != made)
            }
            Shown::Changed(_) => true,
        })
        .await
    }

    /// Ends the watches. Otherwise they would last as long as the member answers pings, even if it
    /// no longer learns of changes.
    pub(super) fn give_up(&self) {
        if !seeded!(WatchesOfTheGivenUp) {
            self.given_up.send_replace(true);
        }
    }

    /// Passes the present keys of a range, and then each change, to `is_over`, until it returns
    /// true or the watch ends.
    pub(super) async fn watch(
        &self,
        what: WatchCreate,
        patience: Duration,
        is_over: impl FnMut(Shown) -> bool,
    ) -> Result<(), Problem> {
        let mut given_up = self.given_up.subscribe();
        let given_up = pin!(given_up.wait_for(|given_up| *given_up));
        let watch = pin!(self.watch_to_the_end(what, patience, is_over));
        match select(watch, given_up).await {
            Either::Left((ended, _)) => ended,
            Either::Right(_) => Ok(()),
        }
    }

    /// The watch begins at the current revision, and the keys are read after that. The reverse
    /// order would need a watch from an earlier revision. Such a watch gets past events only every
    /// 100 ms (`syncWatchersLoop` of the server).
    async fn watch_to_the_end(
        &self,
        what: WatchCreate,
        patience: Duration,
        mut is_over: impl FnMut(Shown) -> bool,
    ) -> Result<(), Problem> {
        let lookup = RangeRequest {
            key: what.key.clone(),
            range_end: what.range_end.clone(),
            ..RangeRequest::default()
        };
        let create = Some(what);
        // The server ends the watch only when the request stream ends, not when the client drops
        // the answer stream. The request stream ends when `goes_on` is dropped, together with this
        // future.
        let (goes_on, ended) = oneshot::channel::<()>();
        let mut goes_on = Some(goes_on);
        if seeded!(WatchesLeft) {
            std::mem::forget(goes_on.take());
        }
        let end = stream::once(ended).filter_map(|_| ready(None));
        let requests = stream::iter([WatchRequest { create }]).chain(end);
        let path = "/etcdserverpb.Watch/Watch";
        let watching = self.stream(path, requests).await;
        let mut response: Streaming<WatchResponse> = watching.map_err(Problem::Status)?;
        let mut lookup = Some(lookup);
        loop {
            let Some(response) = response.message().await.map_err(Problem::Status)? else {
                return Ok(());
            };
            if response.canceled {
                return Ok(());
            }
            // The first message confirms the watch, so the present keys are read now.
            if let Some(lookup) = lookup.take()
                && !seeded!(GoneUnseen)
            {
                let found = self.range(lookup, patience).await?;
                if is_over(Shown::Present(&found.kvs)) {
                    return Ok(());
                }
            }
            let mut changes = response.events.iter();
            if changes.any(|change| is_over(Shown::Changed(change))) {
                return Ok(());
            }
        }
    }

    /// Returns the remaining time of the lease, without extending the lease. `None` if the lease is
    /// over.
    pub(super) async fn time_to_live(
        &self,
        lease: i64,
        patience: Duration,
    ) -> Result<Option<Duration>, Problem> {
        let path = "/etcdserverpb.Lease/LeaseTimeToLive";
        let request = LeaseId { id: lease };
        let answer: TimeToLiveResponse = self.unary(path, request, patience).await?;
        Ok(u64::try_from(answer.ttl).ok().map(Duration::from_secs))
    }

    fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        // With this entry, a member without a leader returns an error, instead of keeping a watch
        // without events.
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            metadata.insert("token", token.clone());
        }
        request
    }

    async fn unary<Q, A>(
        &self,
        path: &'static str,
        message: Q,
        patience: Duration,
    ) -> Result<A, Problem>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let asking = async {
            let mut client = self.client().await?;
            let path = PathAndQuery::from_static(path);
            let request = self.request(message);
            let answer = client.unary(request, path, ProstCodec::default()).await?;
            Ok(answer.into_inner())
        };
        self.in_time(asking, patience).await
    }

    async fn stream<Q, A, S>(&self, path: &'static str, messages: S) -> Result<Streaming<A>, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
        S: futures_util::Stream<Item = Q> + Send + 'static,
    {
        let mut client = self.client().await?;
        let path = PathAndQuery::from_static(path);
        let request = self.request(messages);
        let answers = client
            .streaming(request, path, ProstCodec::default())
            .await?;
        Ok(answers.into_inner())
    }

    async fn client(&self) -> Result<Grpc<Channel>, Status> {
        let mut client = Grpc::new(self.channel.clone());
        let ready = client.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(client)
    }

    async fn in_time<A>(
        &self,
        asking: impl Future<Output = Result<A, Status>>,
        patience: Duration,
    ) -> Result<A, Problem> {
        let waiting = Waiting::begin(&self.unanswered);
        if let Ok(answer) = timeout(patience.max(LEAST_PATIENCE), asking).await {
            waiting.answered();
            return answer.map_err(Problem::Status);
        }
        let dead = DEAD <= waiting.silence();
        waiting.given_up();
        Err(Problem::Silent { dead })
    }
}
