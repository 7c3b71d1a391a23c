//! Shell completions and the manual page.

use std::process::Command;

use crate::harness::{bare, ended};

/// Returns the words that bash offers as completions of the last of `words`.
fn completed(words: &[&str]) -> Vec<String> {
    // As bash does at the tab key, calls the function that the completion script has registered for
    // `leasehold`.
    let script = "\
source <(\"$0\" completions bash)
COMP_WORDS=(leasehold \"$@\"); COMP_CWORD=$#; COMP_LINE=\"leasehold $*\"; COMP_POINT=${#COMP_LINE}
read -r _ _ function _ < <(complete -p leasehold | sed 's/.* -F/complete -F/')
\"$function\" leasehold \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"
printf '%s\\n' \"${COMPREPLY[@]}\"";
    let program = bare().get_program().to_owned();
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script]).arg(program).args(words);
    let ended = ended(&mut bash);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    ended.out.lines().map(str::to_owned).collect()
}

/// Fails if bash does not complete a subcommand, an option or a value, or if the completion script
/// prints an error.
#[test]
fn bash_completes_subcommands_and_options() {
    assert_eq!(completed(&["rel"]), ["release"]);
    assert_eq!(completed(&["run", "--min"]), ["--min-hold"]);
    assert_eq!(completed(&["watch", "--ev"]), ["--every"]);
    assert_eq!(completed(&["completions", "z"]), ["zsh"]);
    for name in [
        "run",
        "ls",
        "show",
        "watch",
        "release",
        "check",
        "completions",
        "man",
    ] {
        assert!(completed(&[""]).iter().any(|word| word == name), "{name}");
    }
    for option in [
        "--ttl",
        "--wait",
        "--max-hold",
        "--quiet",
        "--without-url",
        "--json",
    ] {
        let options = completed(&["run", "job", "--"]);
        assert!(options.iter().any(|word| word == option), "{option}");
    }
}

/// Fails if zsh or fish gets no completion script, or if its script lacks an option of `run`. Also
/// fails if the error for an unsupported shell does not list the supported shells.
#[test]
fn other_shells_get_a_script() {
    for (shell, beginning) in [("zsh", "#compdef leasehold"), ("fish", "#")] {
        let script = ended(bare().args(["completions", shell]));
        assert_eq!(script.code, Some(0), "{script:?}");
        assert!(script.out.starts_with(beginning), "{script:?}");
        assert!(script.out.contains("without-url"), "{script:?}");
    }
    let unknown = ended(bare().args(["completions", "csh"]));
    assert_eq!(unknown.code, Some(64), "{unknown:?}");
    assert!(unknown.err.contains("bash, zsh, fish"), "{unknown:?}");
}

/// Fails if the manual page lacks one of the sections or texts below, which include options of
/// `run`, the variable `LEASEHOLD_URL` and an exit code.
#[test]
fn the_manual_page_is_complete() {
    let page = ended(bare().arg("man"));
    assert_eq!((page.code, page.err.as_str()), (Some(0), ""), "{page:?}");
    let page = page.out;
    for line in [
        ".TH leasehold 1 ",
        ".SH NAME",
        ".SH \"LEASEHOLD RUN\"",
        ".SH \"LEASEHOLD RELEASE\"",
        ".SH NOTES",
        ".SH VERSION",
    ] {
        assert!(
            page.lines().any(|found| found.starts_with(line)),
            "{line}: {page}"
        );
    }
    for text in [
        "without\\-url",
        "max\\-hold",
        "LEASEHOLD_URL",
        "71   the system refuses",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
}
