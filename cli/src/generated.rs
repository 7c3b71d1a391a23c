//! Shell completions and the manual page, generated from the command line's definition.

use std::io;

use clap::{Command, CommandFactory as _};
use clap_complete::generate;
use clap_mangen::Man;

use crate::args::{Cli, Shell};
use crate::exit;
use crate::output;

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> u8 {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "leasehold", &mut script);
    print(&script)
}

/// Prints the manual page.
pub(crate) fn man() -> u8 {
    let mut page = Vec::new();
    // A write to a vector cannot fail.
    let _ = write(&mut page);
    print(&page)
}

fn print(bytes: &[u8]) -> u8 {
    output::line(&text(bytes).trim_end());
    exit::SUCCESS
}

/// Writes one page for the whole command, with a section for each subcommand.
fn write(page: &mut Vec<u8>) -> io::Result<()> {
    let command = Cli::command();
    let man = Man::new(command.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    for subcommand in command.get_subcommands() {
        write_subcommand(subcommand, page)?;
    }
    page.extend(notes(&man)?.into_bytes());
    man.render_version_section(page)
}

/// Returns the section with the text that follows the options in the help, such as the exit codes.
fn notes(man: &Man) -> io::Result<String> {
    let mut notes = Vec::new();
    man.render_extra_section(&mut notes)?;
    Ok(text(&notes).replace(".SH EXTRA", ".SH NOTES"))
}

fn write_subcommand(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let name = format!("leasehold {}", command.get_name());
    let man = Man::new(command.clone().bin_name(&name));
    let mut parts = Vec::new();
    man.render_description_section(&mut parts)?;
    man.render_synopsis_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    let parts = (text(&parts) + &notes(&man)?).replace(".SH ", ".SS ");
    page.extend(format!(".SH \"{}\"\n{parts}", name.to_uppercase()).into_bytes());
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
