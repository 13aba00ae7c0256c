//! The `biombo` command: arguments in, library calls, text out. What a script may rely on stands in `biombo help`.
//!
//! Invariants:
//!
//! 1. Exit status: 0 done, 1 the operation failed, 2 the arguments are wrong (what can be told without looking at the disk).
//! 2. An error is one line on standard error that says what to do. Standard output holds results only.
//! 3. A reader that goes away (`| head`) ends the command quietly, with status 0.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod failure;
mod help;
mod load;
mod out;
mod progress;
mod size;
mod store_args;

use std::io::Write;
use std::process::ExitCode;

pub(crate) use biombo_cli::format;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};

use crate::args::Cli;
use crate::failure::Failure;

fn main() -> ExitCode {
    let outcome = match parse() {
        Ok(cli) => cli.command.run(),
        Err(error) => return refuse(&error),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            match &failure {
                Failure::Closed => {}
                Failure::NotFound => drop(writeln!(std::io::stderr(), "not found")),
                Failure::Failed(_) | Failure::Usage(_) => note(&failure),
            }
            ExitCode::from(failure.status())
        }
    }
}

fn parse() -> Result<Cli, clap::Error> {
    let mut command = help::fitted(Cli::command());
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Say something to the person at the terminal: one line on standard error.
pub(crate) fn note(line: impl std::fmt::Display) {
    // Nobody is left to be told when standard error is gone.
    let _ = writeln!(std::io::stderr(), "biombo: {line}");
}

/// What clap has to say: help goes to standard output as it is, an error becomes one line.
fn refuse(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A closed pipe ends quietly here too.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let rendered = error.render().to_string();
    let mut said: Vec<String> = Vec::new();
    let mut usage = false;
    for line in rendered.lines().map(str::trim).filter(|line| !line.is_empty()) {
        usage |= line.starts_with("Usage: ");
        if !line.starts_with("For more information") && !usage {
            let line = line.strip_prefix("error: ").or(line.strip_prefix("tip: ")).unwrap_or(line);
            said.push(
                line.strip_prefix("[possible values: ")
                    .and_then(|l| l.strip_suffix(']'))
                    .map_or_else(|| line.to_owned(), |values| format!("choose one of {values}")),
            );
        }
    }
    let mut message = said.join("; ").replace(":; ", ": ");
    if matches!(error.kind(), ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand)
        || message.is_empty()
    {
        message = match error.get(ContextKind::InvalidSubcommand) {
            Some(command) => format!("`{command}` needs a command"),
            None => "no command is given".to_owned(),
        };
    }
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg)
        && let Some(better) = value_with_a_dash(word, &words)
    {
        message = better;
    }
    let top = Cli::command();
    let (_, command) = named_command(&top, &words);
    note(format_args!("{message}; see `{command} --help`"));
    ExitCode::from(2)
}

/// What to do where the unknown argument `word` is the value of the option before it, which clap takes it for none of: `-- VALUE` would be another
/// argument.
fn value_with_a_dash(word: &str, words: &[String]) -> Option<String> {
    let at = words.iter().position(|given| given.starts_with(word))?;
    let (given, option) = (&words[at], words.get(at.checked_sub(1)?)?);
    let long = option.strip_prefix("--")?;
    let top = Cli::command();
    let (command, _) = named_command(&top, words);
    let mut named = command.get_arguments().filter(|argument| argument.get_long() == Some(long));
    let takes_value = named.any(|argument| argument.get_action().takes_values());
    let is_value = takes_value && given.starts_with('-') && !given.starts_with("--");
    is_value.then(|| format!("`{given}` looks like an option: as the value of {option} it is written {option}={given}"))
}

/// The command which was asked for, and the words that name it: the one whose help answers.
fn named_command<'a>(top: &'a clap::Command, words: &[String]) -> (&'a clap::Command, String) {
    let (mut here, mut name) = (top, "biombo".to_owned());
    for word in words {
        let Some(inner) = here.find_subcommand(word) else { break };
        name = format!("{name} {}", inner.get_name());
        here = inner;
    }
    (here, name)
}
