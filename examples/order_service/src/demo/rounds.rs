//! The rounds of the demonstration. A round consists of the clicks of one button. Some rounds also
//! kill the process that holds the lock. At the end, the round counts the rows in the tables.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use leasehold::LockError;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::client::{Answer, Client};
use super::events::{Event, Events};
use super::holder::{self, Holder};
use super::ledger::{Count, DemoOrder, Ledger, Outcome, PREFIX};
use super::services::{NAMES, Services};
use crate::error::ApiError;

/// The pause between the two clicks of a double click.
const DOUBLE_CLICK: Duration = Duration::from_millis(80);
/// Interval between two queries for the holder of the lock.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum number of clicks on service B after service A was killed.
const TRIES: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Button {
    DoubleClick,
    TwentyClicks,
    BothServices,
    KillHolder,
    OnceMore,
}

/// The pressed button, and the state of the switch beside it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Ask {
    button: Button,
    lock: bool,
}

/// Result of a round.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    count: Count,
    outcome: Outcome,
    text: String,
}

#[derive(Debug)]
pub(crate) struct Demo {
    client: Client,
    services: Services,
    ledger: Ledger,
    events: Events,
    /// Locked while a round runs, so that a second round is refused.
    turn: Arc<Mutex<Turn>>,
}

#[derive(Debug, Default)]
struct Turn {
    rounds: u32,
    latest_order: Option<String>,
}

/// A running round.
#[derive(Debug, Clone)]
struct Round {
    demo: Arc<Demo>,
    number: u32,
    order: String,
    lock: bool,
}

impl Demo {
    pub(crate) fn new(services: Services, ledger: Ledger, events: Events) -> Self {
        Self {
            client: Client::new(),
            services,
            ledger,
            events,
            turn: Arc::default(),
        }
    }

    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// Runs one round. The round continues to its end even if the page is closed.
    pub(crate) async fn play(self: &Arc<Self>, ask: Ask) -> Result<Verdict, ApiError> {
        let turn = Arc::clone(&self.turn).try_lock_owned();
        let mut turn = turn.map_err(|_| ApiError::RoundIsRunning)?;
        if ask.button == Button::KillHolder && !(ask.lock && self.services.can_be_killed()) {
            return Err(ApiError::NoSuchRound(
                "only a process that holds a lock can be killed: switch the lock on, and set \
                 LEASEHOLD_URL to a server",
            ));
        }
        turn.rounds += 1;
        let order = match (ask.button, turn.latest_order.take()) {
            (Button::OnceMore, Some(latest)) => latest,
            (Button::OnceMore, None) => {
                return Err(ApiError::NoSuchRound("there is no order yet to send again"));
            }
            _ => format!("{PREFIX}{}-{}", std::process::id(), turn.rounds),
        };
        turn.latest_order = Some(order.clone());
        let round = Round {
            demo: Arc::clone(self),
            number: turn.rounds,
            order,
            lock: ask.lock,
        };
        let played = tokio::spawn(async move {
            let verdict = round.play(ask.button).await;
            drop(turn);
            verdict
        });
        played.await.expect("a round does not panic")
    }
}

impl Round {
    async fn play(&self, button: Button) -> Result<Verdict, ApiError> {
        self.demo.events.send(&Event::Round {
            round: self.number,
            title: button.title(),
            lock: self.lock,
            order: self.order.clone(),
        });
        let strip = tokio::spawn(self.clone().show_holder());
        let answers = match button {
            Button::DoubleClick => self.click_all(&["A", "A"], DOUBLE_CLICK).await,
            Button::TwentyClicks => self.click_all(&NAMES.repeat(10), Duration::ZERO).await,
            Button::BothServices => self.click_all(&NAMES, Duration::ZERO).await,
            Button::KillHolder => self.kill_holder().await,
            Button::OnceMore => vec![self.click(1, "B").await],
        };
        strip.abort();
        let mut statuses = answers.iter().flatten().map(|answer| answer.status);
        let away = statuses.any(|status| status == StatusCode::SERVICE_UNAVAILABLE);
        self.demo.events.send(&Event::Lock { holder: None, away });
        let count = self.demo.ledger.count(&self.order).await?;
        let verdict = verdict(button, self.lock, away, count);
        self.demo.events.send(&Event::Verdict {
            round: self.number,
            count,
            outcome: verdict.outcome,
            text: verdict.text.clone(),
        });
        Ok(verdict)
    }

    /// Sends one click to each of these services, with `pause` between two clicks.
    async fn click_all(&self, services: &[&'static str], pause: Duration) -> Vec<Option<Answer>> {
        let mut clicks = JoinSet::new();
        for (click, service) in (1..).zip(services.iter().copied()) {
            let round = self.clone();
            clicks.spawn(async move {
                tokio::time::sleep(pause * (click - 1)).await;
                round.click(click, service).await
            });
        }
        clicks.join_all().await
    }

    /// Kills service A while A has the lock. The customer then clicks on service B, and clicks
    /// again after each 409, with the pause that `Retry-After` requests.
    async fn kill_holder(&self) -> Vec<Option<Answer>> {
        let round = self.clone();
        let first = tokio::spawn(async move { round.click(1, "A").await });
        while !self.is_held_by("A").await {
            if first.is_finished() {
                return vec![first.await.ok().flatten()]; // the verdict shows the result
            }
            tokio::time::sleep(LOOK / 5).await;
        }
        if let Err(error) = self.demo.services.kill("A").await {
            tracing::error!(%error, "service A was not killed");
        }
        self.demo.events.send(&Event::Killed {
            round: self.number,
            service: "A",
        });
        let mut answers = vec![first.await.ok().flatten()];
        for click in 2..2 + TRIES {
            let answer = self.click(click, "B").await;
            let conflict = answer
                .as_ref()
                .filter(|it| it.status == StatusCode::CONFLICT);
            let pause = conflict.map(|answer| answer.header("retry-after"));
            answers.push(answer);
            let Some(seconds) = pause else { break };
            let seconds = seconds.and_then(|text| text.parse().ok());
            tokio::time::sleep(Duration::from_secs(seconds.unwrap_or(1))).await;
        }
        if let Err(error) = self.demo.services.restart().await {
            tracing::error!(%error, "service A does not come back");
        }
        self.demo.events.send(&Event::Services {
            services: self.demo.services.views(),
        });
        answers
    }

    /// Sends the order to a service, and reports the request and its answer to the page.
    async fn click(&self, click: u32, service: &'static str) -> Option<Answer> {
        let Demo {
            client,
            events,
            services,
            ..
        } = &*self.demo;
        events.send(&Event::Sent {
            round: self.number,
            click,
            service,
        });
        let sent = Instant::now();
        let path = format!("/demo/orders/{}?lock={}", self.order, self.lock);
        let answer = match services.named(service) {
            Some(at) => client.send(Method::POST, at.address, &path).await.ok(),
            None => None,
        };
        events.send(&Event::Answered {
            round: self.number,
            click,
            status: answer.as_ref().map(|answer| answer.status.as_u16()),
            retry_after: answer
                .as_ref()
                .and_then(|answer| answer.header("retry-after")),
            replayed: answer.as_ref().is_some_and(|answer| {
                answer.header("idempotency-replayed").as_deref() == Some("true")
            }),
            detail: answer.as_ref().map_or_else(lost, detail),
            took_ms: sent.elapsed().as_millis(),
        });
        answer
    }

    async fn show_holder(self) {
        loop {
            let holder = self.holder().await;
            if let Err(error) = &holder {
                tracing::warn!(%error, "the holder is not known");
            }
            let away = holder.is_err();
            let holder = holder.ok().flatten();
            self.demo.events.send(&Event::Lock { holder, away });
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn is_held_by(&self, service: &str) -> bool {
        let holder = self.holder().await.ok().flatten();
        holder.is_some_and(|holder| holder.service == Some(service))
    }

    async fn holder(&self) -> Result<Option<Holder>, LockError> {
        let services = &self.demo.services;
        holder::of(services.locks(), services, &self.key()).await
    }

    fn key(&self) -> String {
        format!("order:{}", self.order)
    }
}

impl Button {
    fn title(self) -> &'static str {
        match self {
            Self::DoubleClick => "double click",
            Self::TwentyClicks => "20 clicks",
            Self::BothServices => "the same order from both",
            Self::KillHolder => "kill the holder",
            Self::OnceMore => "once more, later",
        }
    }
}

fn lost() -> String {
    "no answer: the process is gone".to_owned()
}

/// Summarizes an answer in a few words.
fn detail(answer: &Answer) -> String {
    if let Ok(order) = serde_json::from_slice::<DemoOrder>(&answer.body) {
        return match answer.status {
            StatusCode::CREATED => format!("order made by {}", order.service()),
            _ => format!("the first result again, made by {}", order.service()),
        };
    }
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = problem["detail"].as_str().or(problem["title"].as_str());
    text.unwrap_or_default().to_owned()
}

/// Judges a round by the rows in the tables. `away` is true if a click was answered with 503,
/// because the lock store did not answer.
fn verdict(button: Button, lock: bool, away: bool, count: Count) -> Verdict {
    let Count { orders, charges } = count;
    let text = match (count.outcome(), button) {
        (Outcome::Unsold, _) if away => "nothing was sold, nobody pays: the lock store is away",
        (Outcome::Unsold, _) => "nothing was sold, nobody pays: no service made the order",
        (Outcome::Right, Button::OnceMore) if away => {
            "ordered once, charged once: the lock store is away, and this click changed nothing"
        }
        (Outcome::Right, Button::OnceMore) => {
            "ordered once, charged once: the lock is free by now, and the look into the table \
             finds the first order"
        }
        (Outcome::Right, Button::KillHolder) => {
            "ordered once, charged once: A died inside its lock, the lease ended by itself, then \
             B made the order"
        }
        (Outcome::Right, _) if lock => "ordered once, charged once",
        (Outcome::Right, _) => "ordered once, charged once: luck, no more",
        (Outcome::Wrong, _) => {
            return Verdict {
                count,
                outcome: Outcome::Wrong,
                text: format!(
                    "ordered {orders} times, charged {charges} times: the customer pays {charges} times"
                ),
            };
        }
    };
    Verdict {
        count,
        outcome: count.outcome(),
        text: text.to_owned(),
    }
}
