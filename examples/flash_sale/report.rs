//! The results of the two sales.

use std::time::Duration;

use crate::args::{Args, Mode};
use crate::crowd::Tally;
use crate::drawing::{self, Bar};

/// The result of one sale.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) mode: Mode,
    pub(crate) tally: Tally,
    pub(crate) left: u32,
    pub(crate) took: Duration,
}

impl Row {
    /// Returns the number of items sold beyond the stock.
    fn oversold(&self, args: &Args) -> u32 {
        self.tally.sold.saturating_sub(args.stock)
    }

    /// Returns the number of sales that the stock does not show, because a later write overwrote
    /// them.
    fn lost_updates(&self, args: &Args) -> u32 {
        (self.tally.sold + self.left).saturating_sub(args.stock)
    }

    fn bar(&self, args: &Args) -> Bar {
        // After an overwritten sale, the same item is sold again.
        let double = self.lost_updates(args).min(self.tally.sold);
        Bar {
            single: self.tally.sold - double,
            double,
            none: args.buyers.saturating_sub(self.tally.sold),
        }
    }

    /// True if every sale took one item off the stock, and as many buyers as possible got an item.
    pub(crate) fn is_exact(&self, args: &Args) -> bool {
        let wanted = args.buyers - self.tally.gave_up;
        self.tally.sold + self.left == args.stock
            && self.tally.sold + self.tally.sold_out == wanted
            && self.tally.sold == args.stock.min(wanted)
    }
}

pub(crate) fn header(args: &Args) {
    let place = if args.is_in_memory() {
        "locks and stock in this process (memory://)"
    } else {
        "locks and stock in Redis"
    };
    println!(
        "{} want {}; {}, {place}, seed {}\n",
        counted(args.buyers, "buyer"),
        counted(args.stock, "item"),
        counted(args.processes, "process"),
        args.seed,
    );
}

pub(crate) fn table(args: &Args, without: &Row, with: &Row) {
    println!(
        "{:<14}{:>7}{:>7}{:>10}{:>14}{:>10}{:>9}{:>9}",
        "", "sold", "left", "oversold", "lost updates", "sold out", "gave up", "seconds"
    );
    for row in [without, with] {
        println!(
            "{:<14}{:>7}{:>7}{:>10}{:>14}{:>10}{:>9}{:>9.2}",
            row.mode,
            row.tally.sold,
            row.left,
            row.oversold(args),
            row.lost_updates(args),
            row.tally.sold_out,
            row.tally.gave_up,
            row.took.as_secs_f64(),
        );
    }
    let colours = drawing::colours();
    println!();
    for row in [without, with] {
        println!("{:<14} {}", row.mode, row.bar(args).draw(colours));
    }
    println!("{:<14} {}\n", "", drawing::LEGEND);
    println!("{}", verdict(args, without, with, colours));
    println!("{TIMES}");
}

/// Explanation of the column of seconds.
const TIMES: &str = "\
The time without the lock is no speed to compare with. All buyers look at the same stock and think
at the same time, which is the mistake. With the lock one buyer at a time looks, thinks and writes.";

fn verdict(args: &Args, without: &Row, with: &Row, colours: bool) -> String {
    let first = match (without.oversold(args), without.lost_updates(args)) {
        (0, 0) => "Without the lock nothing went wrong this time; try more buyers.".to_owned(),
        (0, lost) => format!(
            "Without the lock the stock forgot {}.",
            counted(lost, "sale")
        ),
        (oversold, _) => {
            let sales = format!("{} sold that did not exist", were(oversold));
            format!("Without the lock {}.", drawing::red(&sales, colours))
        }
    };
    let second = if with.is_exact(args) {
        format!("With it exactly {} sold.", were(with.tally.sold))
    } else {
        "WITH THE LOCK THE SALE WAS NOT EXACT.".to_owned()
    };
    format!("{first} {second}")
}

fn were(items: u32) -> String {
    let verb = if items == 1 { "was" } else { "were" };
    format!("{} {verb}", counted(items, "item"))
}

fn counted(number: u32, noun: &str) -> String {
    let plural = match (number, noun) {
        (1, _) => "",
        (_, "process") => "es",
        _ => "s",
    };
    format!("{number} {noun}{plural}")
}
