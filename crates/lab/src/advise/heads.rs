//! What a trial replays of a trace: its beginning, as a file of its own beside the stores.

use std::path::Path;

use biombo_base::{Error, Result};

use super::Question;
use crate::process::RunDir;
use crate::workload::Task;
use crate::workload::trace::{head, survey};

/// The beginnings of the traces of one question, for trials of one size after the other; they go with this.
pub(super) struct Heads<'a> {
    question: &'a Question,
    /// `None`: there is no trace.
    dir: Option<RunDir>,
    /// Those that were made last, and of how many operations they are.
    made: Option<(u64, Question)>,
}

impl<'a> Heads<'a> {
    pub(super) fn new(question: &'a Question, base: &Path) -> Result<Self> {
        let dir = (!question.traces.is_empty()).then(|| RunDir::create(base)).transpose()?;
        Ok(Self { question, dir, made: None })
    }

    /// The question about the first `operations` of its traces; where it has none, or no more than that, the question as it is.
    pub(super) fn of(&mut self, operations: u64) -> Result<Question> {
        let Some(dir) = self.dir.as_ref().filter(|_| operations < self.question.records) else {
            return Ok(self.question.clone());
        };
        if let Some((_, question)) = self.made.as_ref().filter(|(made, _)| *made == operations) {
            return Ok(question.clone());
        }
        if let Some((before, _)) = self.made.take() {
            // What is in the way goes with the whole directory at the latest.
            let _ = std::fs::remove_dir_all(dir.path().join(before.to_string()));
        }
        let question = shortened(self.question, operations, &dir.path().join(operations.to_string()))?;
        self.made = Some((operations, question.clone()));
        Ok(question)
    }
}

/// The question about the first `operations` of its traces, which are put below `dir`.
fn shortened(question: &Question, operations: u64, dir: &Path) -> Result<Question> {
    let files = question.traces.len() as u64;
    let mut traces = Vec::new();
    for (i, file) in question.traces.iter().enumerate() {
        let apart = dir.join(i.to_string());
        std::fs::create_dir_all(&apart).map_err(|e| Error::io(format!("create {}", apart.display()), e))?;
        let short = apart.join(file.file_name().unwrap_or_default());
        head(file, &short, operations.div_ceil(files.max(1)))?;
        traces.push(short);
    }
    let counts = survey(&traces)?;
    Ok(Question { task: Task::Trace { counts }, traces, ..question.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_grow_with_the_trials_and_only_the_last_ones_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let files = ["one.txt", "two.txt"].map(|name| dir.path().join(name));
        for file in &files {
            std::fs::write(file, "0,a\n1,b\n0,c\n1,d\n1,e\n").unwrap();
        }
        let question = Question { traces: files.to_vec(), records: 10, ..Question::default() };
        let mut heads = Heads::new(&question, &dir.path().join("runs")).unwrap();
        let counts = |question: &Question| match question.task {
            Task::Trace { counts } => (counts.reads, counts.writes),
            _ => panic!("no trace"),
        };
        let first = heads.of(4).unwrap();
        assert_eq!((counts(&first), first.traces.len()), ((2, 2), 2));
        assert!(first.traces[0].ends_with("4/0/one.txt") && first.traces[0].exists(), "{:?}", first.traces);
        assert_eq!(heads.of(4).unwrap(), first);
        let second = heads.of(6).unwrap();
        assert_eq!(counts(&second), (4, 2));
        assert!(second.traces[1].exists() && !first.traces[1].exists(), "the shorter ones are in the way");
        // The whole of it needs no copy; nor does what is no trace.
        assert_eq!(heads.of(10).unwrap(), question);
        drop(heads);
        assert_eq!(std::fs::read_dir(dir.path().join("runs")).unwrap().count(), 0);
        let plain = Question::default();
        assert_eq!(Heads::new(&plain, dir.path()).unwrap().of(5).unwrap(), plain);
    }
}
