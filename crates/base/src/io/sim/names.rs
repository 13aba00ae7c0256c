//! The names of a simulated disk: sorted, and shared by all images in which they are the same. A campaign looks up more names than
//! it does anything else, so they are compared as bytes, not component by component.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::disk::Entry;

/// A path whose bytes are compared: one name has one spelling (see [`clean`]).
#[derive(Debug, Clone)]
struct Name(Arc<Path>);

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        bytes(&self.0)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        bytes(&self.0) == bytes(&other.0)
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        bytes(&self.0).cmp(bytes(&other.0))
    }
}

/// The one spelling of a path: no doubled or trailing slashes, no `.`.
pub(super) fn clean(path: &Path) -> Cow<'_, Path> {
    let spelt = bytes(path);
    let is_dot = |part: &[u8]| part.is_empty() || part == b".";
    let rest = spelt.strip_prefix(b"/").unwrap_or(spelt);
    if rest.is_empty() || !rest.split(|byte| *byte == b'/').any(is_dot) {
        return Cow::Borrowed(path);
    }
    Cow::Owned(path.components().filter(|part| *part != Component::CurDir).collect::<PathBuf>())
}

/// The directory of a clean path; `None` for a root.
pub(super) fn parent(path: &Path) -> Option<&Path> {
    let spelt = bytes(path);
    match spelt.iter().rposition(|byte| *byte == b'/') {
        _ if spelt.is_empty() || spelt == b"/" => None,
        None => Some(Path::new("")),
        Some(0) => Some(Path::new("/")),
        Some(end) => Some(Path::new(OsStr::from_bytes(&spelt[..end]))),
    }
}

/// Whether a clean path lies in the directory `dir`, not below another one in it.
pub(super) fn is_in(path: &Path, dir: &Path) -> bool {
    parent(path).is_some_and(|parent| bytes(parent) == bytes(dir))
}

/// Whether a clean path is a root: the working directory or `/`, which are always there.
pub(super) fn is_root(path: &Path) -> bool {
    parent(path).is_none()
}

/// Files and directories by their clean paths.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Arc<BTreeMap<Name, Entry>>);

impl Names {
    pub fn get(&self, path: &Path) -> Option<&Entry> {
        self.0.get(bytes(path))
    }

    pub fn insert(&mut self, path: &Arc<Path>, entry: Entry) {
        Arc::make_mut(&mut self.0).insert(Name(Arc::clone(path)), entry);
    }

    pub fn remove(&mut self, path: &Path) {
        Arc::make_mut(&mut self.0).remove(bytes(path));
    }

    /// All of them, a directory before what is in it.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Arc<Path>, &Entry)> {
        self.0.iter().map(|(name, entry)| (&name.0, entry))
    }

    pub fn is_dir(&self, path: &Path) -> bool {
        is_root(path) || self.get(path) == Some(&Entry::Dir)
    }

    fn is_reachable(&self, path: &Path) -> bool {
        let mut at = path;
        while let Some(dir) = parent(at) {
            if !self.is_dir(dir) {
                return false;
            }
            at = dir;
        }
        true
    }

    /// Keep what can be reached: through directories that are there.
    pub fn retain_reachable(&mut self) {
        let lost: Vec<Name> = self.0.keys().filter(|name| !self.is_reachable(&name.0)).cloned().collect();
        if !lost.is_empty() {
            let names = Arc::make_mut(&mut self.0);
            names.retain(|name, _| !lost.contains(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_spelling_and_one_directory() {
        let spellings = [
            ("a/b", "a/b", Some("a")),
            ("./a//b/", "a/b", Some("a")),
            ("/a/./b", "/a/b", Some("/a")),
            ("/a", "/a", Some("/")),
            ("a", "a", Some("")),
            (".", "", None),
            ("/", "/", None),
            ("", "", None),
        ];
        for (spelt, expected, dir) in spellings {
            let name = clean(Path::new(spelt)).into_owned();
            assert_eq!(bytes(&name), expected.as_bytes(), "{spelt}");
            assert_eq!(parent(&name).map(bytes), dir.map(str::as_bytes), "{spelt}");
        }
    }

    #[test]
    fn what_lies_below_a_lost_directory_is_lost() {
        let mut names = Names::default();
        for (path, entry) in
            [("d", Entry::Dir), ("d/e", Entry::Dir), ("d/e/f", Entry::File(0)), ("d.f", Entry::File(1))]
        {
            names.insert(&Path::new(path).into(), entry);
        }
        let shared = names.clone();
        names.remove(Path::new("d"));
        names.retain_reachable();
        assert_eq!(names.iter().map(|(path, _)| &**path).collect::<Vec<_>>(), [Path::new("d.f")]);
        assert_eq!(shared.iter().count(), 4, "who shared them keeps them");
    }
}
