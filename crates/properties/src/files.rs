//! Directories of files that are damaged by choice, on a simulated disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use biombo_base::io::sim::SimIo;
use biombo_base::io::{Io, OpenMode};

use crate::input::Input;

/// Files by their paths, directories that are empty left out.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A file that damage has made longer has at most so many bytes.
const FILE_BYTES_MAX: usize = 1 << 20;

/// All that is on a disk.
pub fn files_of(sim: &SimIo) -> Files {
    let read = |(path, bytes): (PathBuf, u64)| {
        let mut content = vec![0; bytes as usize];
        let file = sim.open(&path, OpenMode::READ).expect("invariant: it is there");
        file.read_at(&mut content, 0).expect("invariant: nothing is refused");
        (path, content)
    };
    sim.files().into_iter().map(read).collect()
}

/// A disk with these files and `dirs`, all of it durable.
pub fn disk_of(files: &Files, dirs: &[&str]) -> SimIo {
    let sim = SimIo::new(7);
    let nothing_fails = "invariant: nothing is refused";
    dirs.iter().for_each(|dir| sim.create_dir_all(Path::new(dir)).expect(nothing_fails));
    for (path, content) in files {
        sim.create_dir_all(path.parent().unwrap_or(Path::new(""))).expect(nothing_fails);
        let file = sim.open(path, OpenMode::CREATE_NEW).expect(nothing_fails);
        file.write_at(content, 0).expect(nothing_fails);
    }
    sim
}

/// Damage some of `files`, as `input` says, until it is used up or has said enough. Those that `spared` names stay as they are.
pub fn damage(files: &mut Files, input: &mut Input<'_>, spared: impl Fn(&Path) -> bool) {
    for _ in 0..24 {
        let paths: Vec<PathBuf> = files.keys().filter(|path| !spared(path)).cloned().collect();
        if input.is_over() || paths.is_empty() {
            return;
        }
        let path = &paths[input.below(paths.len())];
        let Some(content) = files.get_mut(path) else { return };
        match input.below(12) {
            9 => {
                // A name of another number.
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let digits: Vec<usize> =
                    name.char_indices().filter(|(_, c)| c.is_ascii_hexdigit()).map(|d| d.0).collect();
                let mut name = name.into_bytes();
                if !digits.is_empty() {
                    name[digits[input.below(digits.len())]] = input.of(b"0123456789abcdef");
                }
                let to = path.with_file_name(String::from_utf8_lossy(&name).into_owned());
                if let Some(content) = files.remove(path) {
                    files.insert(to, content);
                }
            }
            10 => drop(files.remove(path)),
            11 => {
                let from = paths[input.below(paths.len())].clone();
                let content = files.get(&from).cloned().unwrap_or_default();
                files.insert(path.clone(), content);
            }
            _ => damage_bytes(content, input),
        }
    }
}

/// One change of the content of a file.
pub fn damage_bytes(content: &mut Vec<u8>, input: &mut Input<'_>) {
    let at = input.below(content.len() + 1);
    // Mostly where something begins.
    let at = at & !input.of(&[0, 7, 3, 511, 4095]);
    match input.below(8) {
        0 => {
            if let Some(byte) = content.get_mut(at) {
                *byte ^= 1 << input.below(8);
            }
        }
        1..=3 => {
            let bytes = input.of(&[1, 4, 8]);
            let number = input.u64().to_le_bytes();
            content.iter_mut().skip(at).zip(&number[..bytes]).for_each(|(to, from)| *to = *from);
        }
        4 => {
            let bytes = input.bytes(64);
            content.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
        }
        5 => {
            let bytes = input.below(4097);
            content.iter_mut().skip(at).take(bytes).for_each(|byte| *byte = 0);
        }
        6 => content.truncate(at),
        _ => {
            let from = input.below(content.len() + 1) & !7;
            let bytes = (input.below(4097)).min(content.len() - from.min(content.len()));
            let piece = content.get(from..from + bytes).unwrap_or_default().to_vec();
            if at + piece.len() > content.len() && at + piece.len() <= FILE_BYTES_MAX {
                content.resize(at + piece.len(), 0);
            }
            content.iter_mut().skip(at).zip(&piece).for_each(|(to, from)| *to = *from);
        }
    }
}
