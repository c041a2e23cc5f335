//! `coeval completions` and `coeval manual`: shell completions and manual pages,
//! generated from the definition of the command line, so that they cannot differ from
//! `--help`.
//!
//! ```text
//!   coeval completions bash > /usr/share/bash-completion/completions/coeval
//!   coeval manual --to /usr/share/man/man1        coeval.1, coeval-start.1, …
//! ```

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use super::fail;

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  coeval completions bash > /usr/share/bash-completion/completions/coeval
  coeval completions zsh > \"${fpath[1]}/_coeval\"
  coeval completions fish > ~/.config/fish/completions/coeval.fish
  source <(coeval completions bash)        # for this shell only";

const MANUAL_EXAMPLES: &str = "\
Examples:
  coeval manual --to /usr/local/share/man/man1
  man coeval-start";

/// The shells that completions can be made for.
const SHELLS: [(&str, Shell); 3] = [
    ("bash", Shell::Bash),
    ("zsh", Shell::Zsh),
    ("fish", Shell::Fish),
];

/// The definition of `coeval completions`.
pub(super) fn completions_command() -> Command {
    Command::new("completions")
        .about("Print what completes this program's commands in a shell")
        .after_help(COMPLETIONS_EXAMPLES)
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(SHELLS.map(|(name, _)| name))
                .help("The shell that is to complete"),
        )
}

/// The definition of `coeval manual`.
pub(super) fn manual_command() -> Command {
    Command::new("manual")
        .about("Write the manual pages, one for each command")
        .after_help(MANUAL_EXAMPLES)
        .arg(
            Arg::new("to")
                .long("to")
                .value_name("DIR")
                .required(true)
                .help("Where to; made if it does not exist"),
        )
}

/// Runs `coeval completions`.
pub(super) fn completions(matches: &ArgMatches, mut command: Command) -> ExitCode {
    let wanted = matches.get_one::<String>("shell");
    let Some((_, shell)) = SHELLS
        .into_iter()
        .find(|(name, _)| wanted.is_some_and(|wanted| wanted == name))
    else {
        // The argument parser accepts no other shell.
        return ExitCode::FAILURE;
    };
    // The script is generated in memory first, because clap panics when a pipe is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "coeval", &mut script);
    match io::stdout().write_all(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&error),
        _ => ExitCode::SUCCESS,
    }
}

/// Runs `coeval manual`.
pub(super) fn manual(matches: &ArgMatches, command: Command) -> ExitCode {
    let Some(folder) = matches.get_one::<String>("to") else {
        return ExitCode::FAILURE;
    };
    let folder = Path::new(folder);
    match write_manual(folder, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&io::Error::new(
            error.kind(),
            format!("cannot write to {}: {error}", folder.display()),
        )),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pages are written by a command of its own, not by a server"
)]
fn write_manual(folder: &Path, command: Command) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (name, page) in pages(command)? {
        std::fs::write(folder.join(name), page)?;
    }
    Ok(())
}

/// File name and text of every manual page.
fn pages(command: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    // `coeval help start` has no page of its own.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, &mut pages)?;
    Ok(pages)
}

/// Adds the pages of a command's subcommands, then its own.
fn add_pages(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for below in command.get_subcommands() {
        add_pages(below, pages)?;
    }
    let man = Man::new(command.clone()).manual("Coeval");
    let mut page = Vec::new();
    man.render(&mut page)?;
    pages.push((man.get_filename(), page));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_server::settings::KEYS;

    #[test]
    fn every_command_has_a_page_that_names_every_setting_it_takes() {
        let pages = pages(super::super::command()).unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| &**name).collect();
        for command in super::super::command().get_subcommands() {
            let page = format!("coeval-{}.1", command.get_name());
            assert!(names.contains(&&*page), "{page} is not among {names:?}");
        }
        assert!(names.contains(&"coeval-cert-node.1"), "{names:?}");
        assert_eq!(names.last(), Some(&"coeval.1"));
        let start = pages.iter().find(|(name, _)| name == "coeval-start.1");
        let start = String::from_utf8(start.unwrap().1.clone()).unwrap();
        let start = start.replace('\\', "");
        for key in KEYS {
            let flag = format!("--{}", key.name.replace('_', "-"));
            assert!(start.contains(&flag), "{flag}");
        }
        assert!(start.starts_with(".ie"), "{}", &start[..40]);
    }

    #[test]
    fn every_shell_learns_every_command() {
        for (name, shell) in SHELLS {
            let mut script = Vec::new();
            let mut command = super::super::command();
            clap_complete::generate(shell, &mut command, "coeval", &mut script);
            let script = String::from_utf8(script).unwrap();
            for command in super::super::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{name}: {command}");
            }
            assert!(script.contains("max-connections"), "{name}");
        }
    }
}
