//! A report's file. It is made before the work, so that a place where none can be is found out then, and takes its place whole.
//!
//! Invariants:
//!
//! 1. The page is written beside, as `FILE.part`, and renamed over `FILE` when all of it is there: whoever ends the command before keeps the
//!    report that was there, and never sees half a page.
//! 2. What is no plain file, such as a pipe, has no place to take: it is written to directly.
//! 3. A command that fails leaves no `FILE.part`; one that is killed leaves one, which the next writes over.
//! 4. The page is written before anything is printed ([`write_then_print`]): whoever reads that may go away before its end, and a full
//!    disk behind it costs no report. Nor does a page that cannot be written cost what is printed.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use biombo_base::io::RealIo;

use super::watch::Output;
use crate::failure::{Done, Failure};
use crate::out::Out;

/// Write a report, if there is to be one, then print; what came of the one and of the other. Who prints is told where the report is, if it is.
pub(in crate::commands) fn write_then_print(
    mut html: Option<Page>,
    text: impl FnOnce() -> biombo_base::Result<String>,
    print: impl FnOnce(&mut Out, Option<&Path>) -> Done,
) -> (Done, Done) {
    let written = match &mut html {
        Some(page) => text().map_err(Failure::from).and_then(|text| page.write(&text)),
        None => Ok(()),
    };
    let path = html.as_ref().filter(|_| written.is_ok()).map(Page::path);
    let mut out = Out::new();
    let printed = print(&mut out, path).and_then(|()| out.finish());
    (written, printed)
}

/// The line that says where a report is.
pub(in crate::commands) fn print_path(out: &mut Out, path: Option<&Path>) -> Done {
    path.map_or(Ok(()), |path| out.line(format_args!("report: {}", path.display())))
}

/// Where a report is written until all of it is there; `None` for a name that no file can have.
pub(super) fn part(path: &Path) -> Option<PathBuf> {
    // A link stays one: what it leads to is replaced.
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = place.file_name()?.to_owned();
    name.push(".part");
    Some(place.with_file_name(name))
}

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
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let found = fs::metadata(&place).ok();
        if found.as_ref().is_some_and(|found| !found.is_file()) {
            return Ok(Self { output: Output::create(path)?, path: path.to_owned(), rename: None });
        }
        let Some(part) = part(path) else {
            return Err(Failure::failed(format!("cannot write {}: it has no file name", path.display())));
        };
        if found.is_some() {
            // What may not be written may not be replaced either.
            OpenOptions::new().write(true).open(&place).map_err(refused)?;
        }
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

    /// Fails if a reader that goes away, or a full disk behind the output, costs the report, or if one that cannot be made costs the table.
    #[test]
    fn the_page_is_there_before_anything_is_printed_and_neither_costs_the_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("report.html");
        let page = || Some(Page::create(&path).expect("it can be made"));
        let (written, printed) = write_then_print(
            page(),
            || Ok("new".to_owned()),
            |_, report| {
                assert_eq!(fs::read_to_string(report.expect("it is told")).expect("it is there"), "new");
                Err(Failure::Closed)
            },
        );
        assert!(written.is_ok() && matches!(printed, Err(Failure::Closed)));
        let mut told = None;
        let broken = || Err(biombo_base::Error::invalid("no report"));
        let (written, printed) = write_then_print(page(), broken, |_, report| {
            told = Some(report.is_some());
            Ok(())
        });
        assert!(written.is_err() && printed.is_ok());
        assert_eq!((told, fs::read_to_string(&path).expect("the old one").as_str()), (Some(false), "new"));
        let (written, printed) = write_then_print(None, broken, |_, report| {
            assert!(report.is_none());
            Ok(())
        });
        assert!(written.is_ok() && printed.is_ok());
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
