//! Checks of the parsers that read bytes from outside. Each function here checks the properties of
//! a parser that must hold for any input.
//!
//! The fuzz targets in `fuzz/targets` call these functions with random bytes. The tests in this
//! file call the functions with the seeds in `fuzz/seeds`.

mod names;
mod records;
mod redis;
mod urls;

pub use names::{etcd, zookeeper};
pub use records::{handovers, messages, results, values};
pub use redis::{replies, slots, wire};
pub use urls::urls;

/// The unread rest of an input. After its end, `byte` and `number` return zeros.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// Returns the text up to the next line break.
    fn line(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|byte| *byte == b'\n');
        let (line, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest.split_first().map_or(&[], |(_, rest)| rest);
        str::from_utf8(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    fn each_seed(target: &str, check: fn(&[u8])) {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
        let seeds = std::fs::read_dir(seeds.join(target)).expect("the seeds of a target");
        let mut count = 0;
        for seed in seeds {
            let path = seed.expect("a seed").path();
            check(&std::fs::read(path).expect("a file"));
            count += 1;
        }
        assert!(0 < count, "{target}");
    }

    macro_rules! seeds {
        ($($target:ident),* $(,)?) => {
            $(#[test]
            fn $target() {
                each_seed(stringify!($target), super::$target);
            })*
        };
    }

    seeds!(
        etcd, handovers, messages, replies, results, slots, urls, values, wire, zookeeper
    );
}
