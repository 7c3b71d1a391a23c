//! Sends more buyers than there are items in stock.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::args::Args;
use crate::client::{Answers, Client, Failure};

pub(crate) async fn send_all(client: &Client, args: &Args) -> Result<Answers, Failure> {
    let places = Arc::new(Semaphore::new(args.parallel as usize * 20));
    let path = Arc::new(format!("/items/{}/buy", args.buy_sku));
    let mut buyers = JoinSet::new();
    for _ in 0..args.buys {
        let place = Arc::clone(&places).acquire_owned().await?;
        let client = client.clone();
        let path = Arc::clone(&path);
        buyers.spawn(async move {
            let answer = client.post(&path, String::new()).await;
            drop(place);
            answer
        });
    }
    let mut answers = Answers::default();
    while let Some(answer) = buyers.join_next().await {
        answers.add(&answer??);
    }
    Ok(answers)
}
