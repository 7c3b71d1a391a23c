//! The command `leasehold`: shows and checks locks, and runs programs inside them.

mod args;
mod check;
mod exit;
mod failure;
mod generated;
mod locks;
mod output;
#[cfg(target_os = "linux")]
mod run;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use leasehold::__private::io_text;

use crate::args::{Cli, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(code) = run::in_role(std::env::args_os()) {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(error),
    };
    let json = cli.json;
    // Uses one thread, because a worker thread may end before this process. A child process
    // requests a signal at its parent's death (`PR_SET_PDEATHSIG`). The kernel sends this signal as
    // soon as the thread that started the child ends.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(answer(cli)),
        Err(error) => Err(Failure::new(exit::SYSTEM, io_text(&error))),
    };
    ExitCode::from(ended.unwrap_or_else(|failure| {
        failure.print(json);
        failure.code
    }))
}

async fn answer(cli: Cli) -> Result<u8, Failure> {
    let Cli {
        store,
        json,
        command,
    } = cli;
    match command {
        #[cfg(target_os = "linux")]
        Command::Run(options) => Ok(run::run(&store, &options, json).await),
        #[cfg(not(target_os = "linux"))]
        Command::Run(_) => Err(Failure::usage(
            "`leasehold run` needs Linux: other systems cannot end a command's processes together \
             with it",
        )),
        Command::Ls(options) => locks::ls(&store, &options.pattern, json).await,
        Command::Show(options) => locks::show(&store, &options.key, json).await,
        Command::Watch(options) => locks::watch(&store, &options, json).await,
        Command::Release(options) => locks::release(&store, &options, json).await,
        Command::Check => check::check(&store, json).await,
        Command::Completions { shell } => Ok(generated::completions(shell)),
        Command::Man => Ok(generated::man()),
    }
}

/// Prints the help, or the error in the command line.
fn explain(mut error: clap::Error) -> ExitCode {
    if let Some(tip) = dashes_missing(&error) {
        let tip = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
    // A failed write means that the reader is gone.
    let _ = error.print();
    let code = if error.use_stderr() {
        exit::USAGE
    } else {
        exit::SUCCESS
    };
    ExitCode::from(code)
}

/// Returns a tip for a command line such as `leasehold run job true`, in which the `--` before the
/// command is missing.
fn dashes_missing(error: &clap::Error) -> Option<String> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(found))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    // Parses the command line again, and ignores the mistakes in it. So the subcommand is found
    // even behind options with values.
    let known = Cli::command().ignore_errors(true).try_get_matches();
    let known = known.ok()?;
    let is_run = known.subcommand_name() == Some("run");
    let has_dashes = std::env::args_os().any(|one| one == "--");
    (is_run && !has_dashes && !found.starts_with('-'))
        .then(|| format!("write `--` before the command: `leasehold run <KEY> -- {found} …`"))
}
