//! Sends every order many times at once.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::args::Args;
use crate::client::{Answer, Answers, Client, Failure};

/// Counts of the answers.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) answers: Answers,
    /// Orders that exactly one answer reported as made.
    pub(crate) made_once: i64,
    /// Answers other than these: 201 with the order, 200 with the same order, or 409 with
    /// `Retry-After`.
    pub(crate) wrong: i64,
}

pub(crate) async fn send_all(client: &Client, args: &Args) -> Result<Outcome, Failure> {
    let places = Arc::new(Semaphore::new(args.parallel as usize));
    let mut orders = JoinSet::new();
    for number in 0..args.orders {
        let place = Arc::clone(&places).acquire_owned().await?;
        let client = client.clone();
        let json = serde_json::json!({
            "id": format!("{}-{number}", args.run),
            "sku": args.order_sku,
        });
        let copies = args.copies;
        orders.spawn(async move {
            let answers = send_copies(&client, &json.to_string(), copies).await;
            drop(place);
            answers
        });
    }
    let mut outcome = Outcome::default();
    while let Some(answers) = orders.join_next().await {
        outcome.add(&answers??);
    }
    Ok(outcome)
}

async fn send_copies(client: &Client, json: &str, copies: u32) -> Result<Vec<Answer>, Failure> {
    let mut requests = JoinSet::new();
    for _ in 0..copies {
        let client = client.clone();
        let json = json.to_owned();
        requests.spawn(async move { client.post("/orders", json).await });
    }
    requests.join_all().await.into_iter().collect()
}

impl Outcome {
    fn add(&mut self, answers: &[Answer]) {
        let made: Vec<_> = with_status(answers, StatusCode::CREATED).collect();
        self.made_once += i64::from(made.len() == 1);
        for answer in answers {
            self.answers.add(answer);
            let fine = match answer.status {
                StatusCode::CREATED => true,
                StatusCode::OK => made.iter().all(|first| first.body == answer.body),
                StatusCode::CONFLICT => answer.retry_after,
                _ => false,
            };
            self.wrong += i64::from(!fine);
        }
    }
}

fn with_status(answers: &[Answer], status: StatusCode) -> impl Iterator<Item = &Answer> {
    answers.iter().filter(move |answer| answer.status == status)
}
