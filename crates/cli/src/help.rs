//! Help that fits the reader's terminal: what stands after the options is written in lines of the source's width, and shown in lines of the
//! terminal's, as clap does with the options.
//!
//! A *full* line of the source goes on in the next one, if that begins where its own text begins: below the first word of prose, or below the
//! text of an item (`  name   text`). Others end where they end. Examples (`  biombo ..`) never go on.

use clap::Command;

/// A line of the source at least as long as this is full.
const FULL: usize = 100;
/// The widest help, clap's own default.
const WIDTH_MAX: usize = 100;
/// In a narrower terminal lines of this width are broken by the terminal.
const WIDTH_MIN: usize = 40;

/// The command, and all its subcommands, with the text after the options in lines of the terminal.
pub(crate) fn fitted(command: Command) -> Command {
    let terminal = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    in_width(command, terminal.or_else(told).unwrap_or(WIDTH_MAX).clamp(WIDTH_MIN, WIDTH_MAX))
}

fn in_width(command: Command, width: usize) -> Command {
    let text = command.get_after_help().map(|text| flow(&text.to_string(), width));
    let command = command.mut_subcommands(|inner| in_width(inner, width));
    match text {
        Some(text) => command.after_help(text),
        None => command,
    }
}

/// One line of the source, or several that go on.
struct Paragraph {
    text: String,
    /// Where the text begins: in characters from the left.
    hang: usize,
    goes_on: bool,
}

impl Paragraph {
    fn of(line: &str) -> Self {
        let indent = line.len() - line.trim_start().len();
        let is_example = line.trim_start().starts_with("biombo ");
        // `  name   text`: the text begins after the first gap.
        let item = line[indent..].find("  ").filter(|_| indent > 0 && !is_example);
        let text = item.map_or(indent, |gap| line.len() - line[indent + gap..].trim_start().len());
        let hang = line[..text].chars().count() + if is_example { 4 } else { 0 };
        Self { text: line.to_owned(), hang, goes_on: !is_example && line.chars().count() >= FULL }
    }

    /// Whether the next line is part of it.
    fn takes(&self, line: &str) -> bool {
        let indent = line.len() - line.trim_start().len();
        self.goes_on && !line.is_empty() && indent == self.hang && !line.trim_start().starts_with("biombo ")
    }

    /// In lines of at most `width`, unless a word is longer: broken at spaces, what follows below the text.
    fn wrap(&self, width: usize, lines: &mut Vec<String>) {
        let mut rest = self.text.clone();
        while rest.chars().count() > width {
            let end = rest.char_indices().nth(width).map_or(rest.len(), |(at, _)| at);
            let begin = rest.char_indices().nth(self.hang).map_or(rest.len(), |(at, _)| at);
            let last = || rest.get(begin..end).and_then(|text| text.rfind(' ')).map(|at| begin + at);
            let fits = if rest[end..].starts_with(' ') { Some(end) } else { last() };
            let Some(space) = fits.filter(|at| *at > begin) else { break };
            lines.push(rest[..space].trim_end().to_owned());
            rest = format!("{:1$}{2}", "", self.hang, rest[space..].trim_start());
        }
        lines.push(rest);
    }
}

fn flow(text: &str, width: usize) -> String {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    for line in text.lines() {
        match paragraphs.last_mut().filter(|last| last.takes(line)) {
            Some(last) => {
                last.text.push(' ');
                last.text.push_str(line.trim_start());
                last.goes_on = line.chars().count() >= FULL;
            }
            None => paragraphs.push(Paragraph::of(line)),
        }
    }
    let mut lines = Vec::new();
    paragraphs.iter().for_each(|paragraph| paragraph.wrap(width, &mut lines));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_lines_go_on_below_their_text_and_others_stay() {
        let words = "words ".repeat(16);
        let full = format!("{words}{words}");
        let full = full.trim_end();
        assert!(full.len() >= FULL);
        let prose = flow(&format!("{full}\nmore\nshort\nend"), 40);
        assert!(prose.lines().all(|line| line.len() <= 40 && !line.starts_with(' ')), "{prose}");
        assert!(prose.ends_with("words more\nshort\nend") || prose.ends_with("\nmore\nshort\nend"), "{prose}");

        let item = flow(&format!("  name   {full}\n         more\n  other  text"), 40);
        let lines: Vec<_> = item.lines().collect();
        assert!(lines[0].starts_with("  name   words") && lines[1].starts_with("         words"), "{item}");
        assert!(lines.iter().all(|line| line.len() <= 40) && lines.last() == Some(&"  other  text"), "{item}");

        let example = format!("  biombo {full}\n  biombo next");
        let shown = flow(&example, 40);
        assert!(shown.contains("\n      words") && shown.ends_with("\n  biombo next"), "{shown}");
        let long = "x".repeat(200);
        assert_eq!(flow(&long, 40), long, "a word that is too long stays whole");
    }

    #[test]
    fn each_command_keeps_its_words_at_any_width() {
        fn words(command: &Command, all: &mut Vec<String>) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            all.extend(text.split_whitespace().map(str::to_owned));
            command.get_subcommands().for_each(|inner| words(inner, all));
        }
        let command = <crate::args::Cli as clap::CommandFactory>::command();
        let mut before = Vec::new();
        words(&command, &mut before);
        assert!(before.len() > 500);
        for width in [WIDTH_MIN, 80, WIDTH_MAX] {
            let mut after = Vec::new();
            words(&in_width(command.clone(), width), &mut after);
            assert_eq!(before, after);
        }
    }
}
