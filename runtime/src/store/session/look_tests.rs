//! Tests of taking a lock away while requests to the server fail, with a fake server and a paused
//! clock.

use std::time::Duration;

use tokio::time::Instant;

use super::look::{Directories, Look, Seen, SessionSource};
use super::service::{Answer, Trouble};
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::store::options::Options;
use crate::store::source::{Place, Source};
use crate::store::{Failure, GRACE, Retry};

const IO_TIMEOUT: Duration = Duration::from_secs(1);

/// A fake server, with flags for failing requests, and the time of the node's removal.
#[derive(Default)]
struct Server {
    cannot_notify: bool,
    cannot_watch: bool,
    cannot_forget: bool,
    /// Number of removals that fail.
    lost_removals: u32,
    removed: Option<Instant>,
}

fn unless(fails: bool) -> Answer<()> {
    if fails {
        let text = "the connection failed".to_owned();
        let failure = Failure::unavailable("io", text, Retry::Later, true);
        return Err(Trouble::Failed(failure));
    }
    Ok(())
}

impl Look for &mut Server {
    const NAME: &'static str = "made-up";

    async fn nodes(&mut self, _: &FullKey) -> Answer<Vec<Seen>> {
        Ok(vec![Seen {
            path: "node".to_owned(),
            own: Some((7, Token::fixed(7))),
            fence: Fence::new(7),
            owner: None,
            is_kept: false,
            since: None,
            ends: None,
        }])
    }

    async fn directories(
        &mut self,
        _: &str,
        _: impl Fn(&str) -> bool + Send + Sync,
        _: Place,
    ) -> Answer<Directories> {
        unimplemented!("no test lists locks")
    }

    async fn revoke(&mut self, _: &Seen, _: i64, _: Token) -> Answer<bool> {
        unless(self.cannot_notify).map(|()| true)
    }

    /// Waits for ever, because the holder in these tests never removes its node.
    async fn gone(&mut self, _: &Seen) -> Answer<()> {
        unless(self.cannot_watch)?;
        std::future::pending().await
    }

    async fn remove(&mut self, _: &Seen) -> Answer<()> {
        let fails = 0 < self.lost_removals;
        self.lost_removals = self.lost_removals.saturating_sub(1);
        unless(fails)?;
        self.removed = Some(Instant::now());
        Ok(())
    }

    async fn forget(&mut self, _: &Seen, _: i64, _: Token) -> Answer<()> {
        unless(self.cannot_forget)
    }
}

/// Takes the lock away. Returns true on success.
async fn takes(server: &mut Server) -> bool {
    let mut source = SessionSource::new(server, &Options::new(IO_TIMEOUT));
    source.take_away(&FullKey::from("k")).await.is_ok()
}

/// Fails if a lock is taken away although the revocation could not be sent to its holder. The
/// holder may still run.
#[tokio::test(start_paused = true)]
async fn a_node_of_an_unknown_session_stays() {
    let mut server = Server {
        cannot_notify: true,
        ..Server::default()
    };
    assert!(!takes(&mut server).await);
    assert_eq!(server.removed, None);
}

/// Fails if a broken connection is mistaken for the removal of the node by its holder. The holder
/// would then lose the lock before its grace is over.
#[tokio::test(start_paused = true)]
async fn a_holder_keeps_its_grace_despite_broken_connections() {
    for cannot_watch in [false, true] {
        let mut server = Server {
            cannot_watch,
            ..Server::default()
        };
        let begun = Instant::now();
        assert!(takes(&mut server).await);
        let removed = server.removed.expect("its time is over");
        assert!(GRACE <= removed - begun, "{:?}", removed - begun);
    }
}

/// A dead holder does not remove its node. Fails if the node stays because the first removal fails,
/// or because the revocation cannot be deleted.
#[tokio::test(start_paused = true)]
async fn the_node_of_a_dead_holder_is_always_removed() {
    let mut server = Server {
        cannot_forget: true,
        lost_removals: 1,
        ..Server::default()
    };
    assert!(takes(&mut server).await);
    assert!(server.removed.is_some());
}
