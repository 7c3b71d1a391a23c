//! Encodes commands in the Redis protocol, one argument at a time.

use std::io::{self, Write};

use redis::{Cmd, RedisWrite, ToRedisArgs};

use super::scripts::LuaScript;

/// Maximum capacity, in bytes, of an emptied buffer. Further memory, which a burst of requests has
/// needed, is freed.
const KEPT: usize = 64 * 1024;

/// Commands to send, in the order of sending.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    /// Number of commands since the last call of [`take_count`](Self::take_count).
    count: usize,
    /// The arguments of the unfinished command. They are collected here, because their number
    /// precedes them in the protocol, and is known only after the last argument.
    args: Vec<u8>,
    /// True if each call of a script carries the script's source (`EVAL`), instead of its hash
    /// (`EVALSHA`).
    pub(crate) by_source: bool,
}

impl Outgoing {
    /// Returns the bytes that must still be sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes the bytes after they have been sent.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.args.shrink_to(KEPT);
    }

    /// Returns the number of commands added since the last call of this function.
    pub(crate) fn take_count(&mut self) -> usize {
        std::mem::take(&mut self.count)
    }

    /// Begins a command. Dropping the returned value completes it.
    pub(crate) fn command(&mut self, name: &str) -> Command<'_> {
        let mut command = Command {
            outgoing: self,
            args: 0,
        };
        command.arg(name);
        command
    }

    /// Begins a call of a script with this many keys.
    pub(crate) fn call(&mut self, script: &LuaScript, keys: usize) -> Command<'_> {
        let (name, script) = if self.by_source {
            ("EVAL", &*script.text)
        } else {
            ("EVALSHA", script.hash())
        };
        let mut command = self.command(name);
        command.arg(script).arg(keys);
        command
    }

    /// Adds a whole command.
    pub(crate) fn add(&mut self, command: &Cmd) {
        command.write_packed_command(&mut self.bytes);
        self.count += 1;
    }
}

/// An unfinished command.
pub(crate) struct Command<'a> {
    outgoing: &'a mut Outgoing,
    args: usize,
}

impl Command<'_> {
    pub(crate) fn arg<T: ToRedisArgs>(&mut self, arg: T) -> &mut Self {
        arg.write_redis_args(self);
        self
    }
}

impl RedisWrite for Command<'_> {
    fn write_arg(&mut self, arg: &[u8]) {
        self.args += 1;
        let args = &mut self.outgoing.args;
        args.reserve(arg.len() + 32);
        header(args, b'$', arg.len());
        args.extend_from_slice(arg);
        args.extend_from_slice(b"\r\n");
    }

    fn writer_for_next_arg(&mut self) -> impl Write + '_ {
        self.args += 1;
        Argument {
            start: self.outgoing.args.len(),
            args: &mut self.outgoing.args,
        }
    }
}

impl Drop for Command<'_> {
    fn drop(&mut self) {
        let Outgoing {
            bytes, args, count, ..
        } = &mut *self.outgoing;
        header(bytes, b'*', self.args);
        bytes.append(args);
        *count += 1;
    }
}

/// An unfinished argument.
struct Argument<'a> {
    args: &'a mut Vec<u8>,
    start: usize,
}

impl Write for Argument<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.args.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Argument<'_> {
    fn drop(&mut self) {
        let end = self.args.len();
        header(self.args, b'$', end - self.start);
        let header = self.args.len() - end;
        self.args[self.start..].rotate_right(header);
        self.args.extend_from_slice(b"\r\n");
    }
}

/// Writes the kind of the next element, and the element's length.
fn header(out: &mut Vec<u8>, kind: u8, length: usize) {
    // The first two arms are a shortcut: nearly all lengths have one digit or two.
    match u8::try_from(length) {
        Ok(ones @ ..10) => out.extend_from_slice(&[kind, b'0' + ones, b'\r', b'\n']),
        Ok(short @ ..100) => {
            let (tens, ones) = (b'0' + short / 10, b'0' + short % 10);
            out.extend_from_slice(&[kind, tens, ones, b'\r', b'\n']);
        }
        // Writing to memory cannot fail.
        _ => drop(write!(out, "{}{length}\r\n", char::from(kind))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redis::cmd;

    use super::*;
    use crate::store::redis::commands::scripts::RENEW;

    /// An argument written in parts.
    struct Parts<'a>(&'a [Vec<u8>]);

    impl ToRedisArgs for Parts<'_> {
        fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
            let mut arg = out.writer_for_next_arg();
            for part in self.0 {
                arg.write_all(part).expect("a buffer takes all");
            }
        }
    }

    proptest! {
        /// Fails if a command is encoded in other bytes than by the crate `redis`.
        #[test]
        fn commands_are_encoded_like_in_the_redis_crate(
            commands in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..12), 1..4),
            number in any::<u64>(),
        ) {
            let (mut outgoing, mut expected) = (Outgoing::default(), Vec::new());
            for args in &commands {
                let mut command = outgoing.command("GET");
                let mut model = cmd("GET");
                for arg in args {
                    command.arg(arg);
                    model.arg(arg);
                }
                command.arg(number).arg(Parts(args));
                model.arg(number).arg(args.concat());
                drop(command);
                expected.extend(model.get_packed_command());
            }
            prop_assert_eq!(outgoing.bytes(), expected);
            prop_assert_eq!(outgoing.take_count(), commands.len());
        }
    }

    /// Fails if `by_source` is set and a script is called by its hash, or the other way round.
    #[test]
    fn a_script_can_be_sent_by_its_source() {
        for (by_source, name, script) in [
            (false, "EVALSHA", RENEW.hash()),
            (true, "EVAL", &*RENEW.text),
        ] {
            let mut outgoing = Outgoing {
                by_source,
                ..Outgoing::default()
            };
            outgoing.call(&RENEW, 2).arg("a").arg("b").arg("");
            let mut model = cmd(name);
            model.arg(script).arg(2).arg("a").arg("b").arg("");
            assert_eq!(outgoing.bytes(), model.get_packed_command());
        }
    }
}
