//! Any bytes survive the way through a store as text: load, scan, load again.

mod common;

use std::collections::BTreeMap;

use common::{biombo_with, run, words};
use proptest::prelude::*;
use tempfile::tempdir;

fn bytes(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => any::<u8>(), 1 => Just(b'\\'), 1 => Just(b'\t'), 1 => Just(b'\n'), 1 => Just(0xc3), 2 => Just(b'a')];
    proptest::collection::vec(byte, length)
}

/// Every byte in hexadecimal, the most that a writer may escape.
fn escape_all(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02X}")).collect()
}

/// What a reader who knows only the four escapes makes of a line.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (&kind, after) = rest.split_first().expect("a whole escape");
        rest = after;
        bytes.push(match kind {
            b't' => b'\t',
            b'n' => b'\n',
            b'\\' => b'\\',
            b'x' => {
                let (digits, after) = rest.split_at(2);
                rest = after;
                u8::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16).expect("digits")
            }
            other => panic!("escape {other}"),
        });
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn records_survive_tsv_and_jsonl_through_a_store(
        records in proptest::collection::btree_map(bytes(1..30), bytes(0..60), 1..60),
        partitions in 1u32..4,
    ) {
        let dir = tempdir().expect("a directory");
        let lines: String =
            records.iter().map(|(key, value)| format!("{}\t{}\n", escape_all(key), escape_all(value))).collect();
        let load = format!("load DIR/s - --durability os --partitions {partitions}");
        biombo_with(words(&load, dir.path()), lines.as_bytes()).ok();

        let tsv = run("scan DIR/s", dir.path()).ok();
        let read: BTreeMap<Vec<u8>, Vec<u8>> = tsv
            .text()
            .strip_suffix('\n')
            .expect("a whole last line")
            .split('\n')
            .map(|line| line.split_once('\t').expect("a tab"))
            .map(|(key, value)| (unescape(key.as_bytes()), unescape(value.as_bytes())))
            .collect();
        prop_assert_eq!(&read, &records);

        let jsonl = run("scan DIR/s --format jsonl", dir.path()).ok();
        biombo_with(words("load DIR/j - --format jsonl --durability os", dir.path()), &jsonl.stdout).ok();
        prop_assert_eq!(run("scan DIR/j", dir.path()).ok().stdout, tsv.stdout);
    }
}
