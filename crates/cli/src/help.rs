//! Help that fits the reader's terminal: what stands after the options is written in lines of the source's width, and shown in lines of the
//! terminal's.

use clap::Command;

/// A line at least as long as this goes on in the next one; a shorter one ends where it ends.
const FULL: usize = 100;
/// Prose below a name is indented by so much at least.
const DEEP: usize = 6;

/// The command with its paragraphs, and those of all its subcommands, each on one line: clap wraps it.
pub(crate) fn flowing(command: Command) -> Command {
    let text = command.get_after_help().map(|text| flow(&text.to_string()));
    let command = command.mut_subcommands(flowing);
    match text {
        Some(text) => command.after_help(text),
        None => command,
    }
}

/// Joins a full line with the next one that is as far indented. Lines indented a little are tables and examples, and stay as they are.
fn flow(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut flowing = String::with_capacity(text.len());
    let mut joins = None;
    for line in text.lines() {
        let prose = Some(indent(line)).filter(|&indent| !line.is_empty() && (indent == 0 || indent >= DEEP));
        if prose.is_some() && joins == prose {
            flowing.push(' ');
            flowing.push_str(line.trim_start());
        } else {
            if !flowing.is_empty() {
                flowing.push('\n');
            }
            flowing.push_str(line);
        }
        joins = prose.filter(|_| line.chars().count() >= FULL);
    }
    flowing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_lines_of_prose_go_on_and_others_stay() {
        let full = "a".repeat(FULL);
        let table = format!("  {full}");
        let text = format!("{full}\n{full}\nshort\n{full}\n{table}\n{table}\n\nname\n      {full}\n      end");
        assert_eq!(flow(&text), format!("{full} {full} short\n{full}\n{table}\n{table}\n\nname\n      {full} end"));
    }

    #[test]
    fn each_command_keeps_its_words() {
        fn words(command: &Command, all: &mut Vec<String>) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            all.extend(text.split_whitespace().map(str::to_owned));
            command.get_subcommands().for_each(|inner| words(inner, all));
        }
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let command = <crate::args::Cli as clap::CommandFactory>::command();
        words(&command, &mut before);
        words(&flowing(command), &mut after);
        assert!(before.len() > 500);
        assert_eq!(before, after);
    }
}
