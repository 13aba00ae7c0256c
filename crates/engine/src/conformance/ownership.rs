//! Whose directory it is: one instance at a time, and never another program's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::subject::{Subject, must, must_refuse};
use crate::{Durability, ErrorKind, Op};

/// While an instance is open a second one on its directory is `Busy`; the first goes on unharmed, and after its end the
/// directory opens again with everything.
pub fn check_second_instance_is_refused(subject: &Subject) {
    if !subject.capabilities.persistent {
        return;
    }
    subject.bounded(|subject| {
        let instance = subject.instance();
        must(instance.engine.apply(&[Op::Put { key: b"first", value: b"1" }], Durability::Sync), "put");
        for _ in 0..3 {
            must_refuse((subject.open)(&instance.dir), ErrorKind::Busy, "a second instance on the same directory");
            // The refusal must not have released what keeps others out.
            instance.put(b"second", b"2");
        }
        // The same directory by another path is still the same directory.
        #[cfg(unix)]
        {
            let alias = instance.beside("alias");
            must(
                std::os::unix::fs::symlink(&instance.dir, &alias).map_err(|e| crate::Error::io("link", e)),
                "make a link",
            );
            must_refuse((subject.open)(&alias), ErrorKind::Busy, "a second instance through a link");
        }
        assert_eq!(instance.get(b"first").as_deref(), Some(&b"1"[..]));
        let instance = instance.reopen();
        assert_eq!(instance.get(b"first").as_deref(), Some(&b"1"[..]));
        assert_eq!(instance.get(b"second").as_deref(), Some(&b"2"[..]));
    });
}

/// A directory that holds something else, a file or a directory, is refused and stays byte for byte as it was.
pub fn check_directory_of_another_program_is_refused(subject: &Subject) {
    if !subject.capabilities.persistent {
        return;
    }
    subject.bounded(|subject| {
        let contents: [&[(&str, &str)]; 3] = [
            &[("thesis.tex", "\\documentclass{book}\n")],
            &[("photos/2026/a.jpg", "not really")],
            &[("empty", ""), (".hidden", "settings")],
        ];
        for files in contents {
            let home = tempfile::TempDir::with_prefix("biombo-conformance-").unwrap_or_else(|e| panic!("{e}"));
            for (name, content) in files {
                let path = home.path().join(name);
                let parent = path.parent().unwrap_or(home.path());
                std::fs::create_dir_all(parent)
                    .and_then(|()| std::fs::write(&path, content))
                    .unwrap_or_else(|e| panic!("{e}"));
            }
            let before = listing(home.path());
            match (subject.open)(home.path()) {
                Ok(_) => panic!("opened a directory that holds {files:?} of another program"),
                Err(error) => assert!(!error.to_string().contains('\n'), "not one line: {error}"),
            }
            let after = listing(home.path());
            assert_eq!(before, after, "refused, but the directory is not as it was");
        }
        let home = tempfile::TempDir::with_prefix("biombo-conformance-").unwrap_or_else(|e| panic!("{e}"));
        let file = home.path().join("file");
        std::fs::write(&file, "no directory").unwrap_or_else(|e| panic!("{e}"));
        assert!((subject.open)(&file).is_err(), "opened a file as if it were a directory");
        assert_eq!(
            std::fs::read(&file).ok().as_deref(),
            Some(&b"no directory"[..]),
            "a file was changed by opening it"
        );
    });
}

/// Every file below `dir` with its content; a directory has none.
fn listing(dir: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
            let path = entry.unwrap_or_else(|e| panic!("{e}")).path();
            if path.is_dir() {
                todo.push(path.clone());
                found.insert(path, None);
            } else {
                let content = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                found.insert(path, Some(content));
            }
        }
    }
    found
}
