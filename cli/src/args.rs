//! The command line.

use std::env::VarError;
use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use leasehold::{LockPool, LockPoolBuilder};

use crate::failure::Failure;

/// The exit codes from 70. All except 71 are only for `run`. `$mark` is `run: ` in the help of the
/// whole command, and empty in the help of `run`.
macro_rules! run_exit_codes {
    ($mark:literal) => {
        concat!(
            "  70   ",
            $mark,
            "the lease was lost, although the command ended with 0\n",
            "  71   the system refuses a resource, such as a new process or thread\n",
            "  75   ",
            $mark,
            "the lock is held elsewhere; the command did not run\n",
            "  126  ",
            $mark,
            "the command cannot be started\n",
            "  127  ",
            $mark,
            "the command was not found\n",
            "  Otherwise `run` exits like its command: with its exit code, or with 128 + the \
             signal's number."
        )
    };
}

const EXIT_CODES: &str = concat!(
    "Exit codes:\n",
    "  0    success\n",
    "  1    the answer is no: the lock is not held, or `check` found an error\n",
    "  64   the command line is invalid, or a setting in it is not supported\n",
    "  69   the lock store is unavailable\n",
    run_exit_codes!("run: ")
);

const RUN_EXIT_CODES: &str = concat!(
    "Exit codes:\n",
    "  64   the command line is invalid, or a setting in it is not supported\n",
    "  69   the lock store is unavailable; the command did not run\n",
    run_exit_codes!("")
);

const SHORTENED: &str = "On a terminal, long keys are shortened in the middle to fit its width. In \
                         a pipe or a file, and with `--json`, they are complete.";

/// Shows, checks and uses the distributed locks of leasehold.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) store: Store,

    /// Prints JSON instead of tables and texts; times are in milliseconds.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that select the lock store.
#[derive(Debug, Args)]
pub(crate) struct Store {
    /// The lock store, such as `redis://127.0.0.1/`. `LEASEHOLD_URL` keeps a password out of `ps`.
    #[arg(long, env = "LEASEHOLD_URL", hide_env_values = true, global = true)]
    url: Option<String>,

    /// File with the password of the URL's user, read before each connection
    #[arg(
        long,
        value_name = "FILE",
        env = "LEASEHOLD_PASSWORD_FILE",
        global = true
    )]
    password_file: Option<OsString>,

    /// Prefix of the keys on the server; empty for none. If absent, `LEASEHOLD_NAMESPACE` is used
    /// [default: lock]
    #[arg(long, global = true)]
    namespace: Option<String>,

    /// Maximum time to wait for an answer of the lock store.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time, global = true)]
    io_timeout: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a program inside a lock, like `flock` on one machine.
    ///
    /// The program inherits the environment, with `LEASEHOLD_URL` and the password in it unless
    /// `--without-url` is given.
    #[command(after_help = RUN_EXIT_CODES)]
    Run(Run),

    /// Lists the held locks, with the process, the function and the time of each.
    #[command(after_help = SHORTENED)]
    Ls(Ls),

    /// Shows everything about one lock.
    #[command(after_help = SHORTENED)]
    Show(Show),

    /// Shows the locks live, until ctrl-c; without a terminal, prints each change as a line.
    #[command(after_help = SHORTENED)]
    Watch(Watch),

    /// Takes a lock away from its holder, after confirmation; exit code 1 if it is free.
    Release(Release),

    /// Checks the lock store, for a readiness probe; exit code 1 if locks cannot be taken.
    Check,

    /// Prints a script with which a shell completes this command's subcommands and options.
    Completions {
        /// The shell that loads the script.
        shell: Shell,
    },

    /// Prints the manual page: `leasehold man | man -l -`.
    Man,
}

/// A shell for which `completions` prints a script.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Pattern of keys: `*` matches any text, `?` one character, and `\` escapes the next one.
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The lock's key, such as `order:42`.
    pub(crate) key: String,
}

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Pattern of keys: `*` matches any text, `?` one character, and `\` escapes the next one.
    #[arg(default_value = "*")]
    pub(crate) pattern: String,

    /// Time between two updates.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = pause)]
    pub(crate) every: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Release {
    /// The lock's key, such as `order:42`.
    pub(crate) key: String,

    /// Skips the confirmation.
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The lock's key, such as `job:invoices`.
    pub(crate) key: String,

    /// Time for which the lock stays if this process dies. The lock is renewed while the command
    /// runs.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub(crate) ttl: Duration,

    /// Maximum time to queue for the lock if it is held.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = time)]
    pub(crate) wait: Duration,

    /// Stops the command after this time: SIGTERM, and ten seconds later SIGKILL.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_hold: Option<Duration>,

    /// Keeps the lock for at least this time after the command starts, even if it ends earlier.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) min_hold: Option<Duration>,

    /// Name of the holder, which others see in `ls`, `show` and their logs
    /// [default: the name of the program's file, without its arguments]
    #[arg(long, value_name = "TEXT", env = "LEASEHOLD_NAME")]
    pub(crate) name: Option<String>,

    /// Prints nothing if the lock is held elsewhere; the exit code is 75.
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Keeps `LEASEHOLD_URL`, which may contain a password, out of the program's environment.
    #[arg(long)]
    pub(crate) without_url: bool,

    /// The program to run, with its arguments, after `--`.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("write a time such as `30s` or `1h30m` ({error})"))
}

/// Parses the time between two updates of `watch`.
fn pause(text: &str) -> Result<Duration, String> {
    let every = time(text)?;
    if every < Duration::from_millis(50) {
        return Err("each update costs the server some work; use at least 50ms".to_owned());
    }
    Ok(every)
}

impl Store {
    pub(crate) async fn connect(&self) -> Result<LockPool, Failure> {
        Ok(self.builder()?.connect().await?)
    }

    /// Returns the namespace, or `None` for the default one. An empty `--namespace` means that keys
    /// have no prefix. But an empty `LEASEHOLD_NAMESPACE` counts as unset, as in
    /// `leasehold::init_from_env`.
    fn namespace(&self) -> Result<Option<String>, Failure> {
        if self.namespace.is_some() {
            return Ok(self.namespace.clone());
        }
        match std::env::var("LEASEHOLD_NAMESPACE") {
            Ok(namespace) => Ok(Some(namespace).filter(|namespace| !namespace.is_empty())),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => {
                Err(Failure::usage("LEASEHOLD_NAMESPACE is not valid UTF-8"))
            }
        }
    }

    fn builder(&self) -> Result<LockPoolBuilder, Failure> {
        let url = self.url.clone().filter(|url| !url.is_empty());
        let url = url.ok_or_else(|| {
            Failure::usage(
                "no lock store is given; use `--url redis://127.0.0.1/`, or set LEASEHOLD_URL",
            )
        })?;
        if url.starts_with("memory:") {
            return Err(Failure::usage(
                "the locks of memory:// exist in one process only; use a store that processes \
                 share, such as redis://127.0.0.1/",
            ));
        }
        let mut builder = LockPool::builder().url(url).io_timeout(self.io_timeout);
        // An empty `LEASEHOLD_PASSWORD_FILE` counts as unset, as in `leasehold::init_from_env`.
        if let Some(file) = self.password_file.as_ref().filter(|file| !file.is_empty()) {
            builder = builder.password_file(file);
        }
        Ok(match self.namespace()? {
            Some(namespace) => builder.namespace(namespace),
            None => builder,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
