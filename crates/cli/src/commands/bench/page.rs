//! A report's file. It is made before the work, so that a place where none can be is found out then, and takes its place whole.
//!
//! Invariants:
//!
//! 1. The page is written beside, as `FILE.part`, and renamed over `FILE` when all of it is there: whoever ends the command before keeps the
//!    report that was there, and never sees half a page.
//! 2. What is no plain file, such as a pipe, has no place to take: it is written to directly.
//! 3. A command that fails leaves no `FILE.part`; one that is killed leaves one, which the next writes over.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use biombo_base::io::RealIo;

use super::watch::Output;
use crate::failure::{Done, Failure};

/// A report to come.
pub(in crate::commands) struct Page {
    output: Output,
    /// As it was named.
    path: PathBuf,
    /// What is to be renamed, until it is: from where to where.
    rename: Option<(PathBuf, PathBuf)>,
}

impl Page {
    /// Make sure that it can be written.
    pub(in crate::commands) fn create(path: &Path) -> Done<Self> {
        let refused = |e: std::io::Error| Failure::failed(format!("cannot write {}: {e}", path.display()));
        // A link stays one: what it leads to is replaced.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let found = fs::metadata(&place).ok();
        if found.as_ref().is_some_and(|found| !found.is_file()) {
            return Ok(Self { output: Output::create(path)?, path: path.to_owned(), rename: None });
        }
        let Some(name) = place.file_name() else {
            return Err(Failure::failed(format!("cannot write {}: it has no file name", path.display())));
        };
        if found.is_some() {
            // What may not be written may not be replaced either.
            OpenOptions::new().write(true).open(&place).map_err(refused)?;
        }
        let mut part = name.to_owned();
        part.push(".part");
        let part = place.with_file_name(part);
        Ok(Self { output: Output::create(&part)?, path: path.to_owned(), rename: Some((part, place)) })
    }

    /// Write all of it.
    pub(in crate::commands) fn write(&mut self, text: &str) -> Done {
        self.output.write(text)?;
        if let Some((part, place)) = &self.rename {
            let renamed = RealIo::shared().rename(part, place);
            renamed.map_err(|e| Failure::failed(format!("cannot write {}: {e}", self.path.display())))?;
            self.rename = None;
        }
        Ok(())
    }

    pub(in crate::commands) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.rename {
            // It is this command's own.
            let _ = fs::remove_file(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_its_place_whole_and_one_that_never_comes_leaves_the_old_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("report.html");
        fs::write(&path, "old").expect("a file");
        let names = || fs::read_dir(dir.path()).expect("it is listed").count();
        let page = Page::create(&path).expect("it can be made");
        assert_eq!((fs::read_to_string(&path).expect("it is there").as_str(), names()), ("old", 2));
        drop(page);
        assert_eq!((fs::read_to_string(&path).expect("it is there").as_str(), names()), ("old", 1));
        let link = dir.path().join("link.html");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        let mut page = Page::create(&link).expect("it can be made");
        page.write("new").expect("it is written");
        drop(page);
        assert_eq!((fs::read_to_string(&path).expect("it is there").as_str(), names()), ("new", 2));
        assert!(fs::symlink_metadata(&link).is_ok_and(|found| found.file_type().is_symlink()));
    }

    #[test]
    fn where_no_page_can_be_it_is_said_before_the_work_and_a_device_is_written_to() {
        let dir = tempfile::tempdir().expect("a directory");
        for path in [dir.path().join("nosuch/report.html"), dir.path().to_owned()] {
            let failure = Page::create(&path).err().expect("it cannot be made");
            assert!(failure.to_string().starts_with("cannot write "), "{failure}");
        }
        Page::create(Path::new("/dev/null")).and_then(|mut page| page.write("gone")).expect("it takes everything");
    }
}
