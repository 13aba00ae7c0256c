//! The page against a model, byte by byte; and what a panic leaves.

use std::path::Path;
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::sim::{Random, SimIo};
use biombo_base::io::{AlignedBuf, Io};
use biombo_engine::{Durability, Engine, Op, OpenOptions};

use super::{BtreeOptions, open_with};
use crate::Behaviour;

use super::page::{CELL_BYTES_MAX, PAGE_BYTES, Page, Run, Stored, inline_cell, inner_cell, run_cell};

fn cell_of(key: &[u8], value: &[u8]) -> Vec<u8> {
    let run = Run { page: 77, value_bytes: value.len() as u32 };
    inline_cell(key, value).unwrap_or_else(|| run_cell(key, run))
}

fn same(page: &Page, model: &[(Vec<u8>, Vec<u8>)]) {
    assert_eq!(page.count(), model.len());
    for (at, (key, value)) in model.iter().enumerate() {
        assert_eq!((page.key(at), page.value(at).len()), (&key[..], value.len()));
        match page.value(at) {
            Stored::Inline(stored) => assert_eq!(stored, value),
            Stored::Run(run) => assert_eq!((run.page, inline_cell(key, value)), (77, None)),
        }
        assert_eq!(page.search(key), Ok(at));
    }
}

fn reread(page: &Page) -> Page {
    let mut sealed = AlignedBuf::new();
    page.seal(5, 9, 3, &mut sealed);
    Page::check(&sealed, 5, 9, 3).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_page_holds_what_a_sorted_list_holds_through_insertions_removals_and_splits() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let (mut page, mut model) = (Page::leaf(), Vec::<(Vec<u8>, Vec<u8>)>::new());
        for _ in 0..400 {
            let longest = if random.below(9) == 0 { 512 } else { 24 };
            let mut key = vec![0; 1 + random.below(longest) as usize];
            key.iter_mut().for_each(|byte| *byte = b"ab\0\xff"[random.below(4) as usize]);
            if random.below(3) == 0 && !model.is_empty() {
                let at = random.below(model.len() as u64) as usize;
                page.remove(at);
                model.remove(at);
            } else if let Err(at) = page.search(&key) {
                let value = vec![random.next() as u8; random.below([10, 300, 2000][seed as usize % 3]) as usize];
                let cell = cell_of(&key, &value);
                model.insert(at, (key, value));
                if !page.insert(at, &cell) {
                    let (right, parting) = page.split(at, &cell);
                    let middle = page.count();
                    assert!(model[middle - 1].0 < parting && parting <= model[middle].0, "what parts the pages");
                    same(&reread(&right), &model.split_off(middle));
                }
            }
            same(&page, &model);
        }
        same(&reread(&page), &model);
    }
}

#[test]
fn an_inner_page_leads_to_the_same_children_before_and_after_a_split() {
    let mut page = Page::inner(1000);
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut random = Random(4);
    loop {
        let key = vec![random.next() as u8; 1 + random.below(512) as usize];
        let Err(at) = page.search(&key) else { continue };
        let cell = inner_cell(&key, keys.len() as u32);
        keys.push(key);
        if page.insert(at, &cell) {
            continue;
        }
        let (right, up) = page.split(at, &cell);
        for (child, key) in keys.iter().enumerate() {
            let half = if *key < up { &page } else { &right };
            assert_eq!(half.child(half.child_of(key)), child as u32);
        }
        assert_eq!((page.child(0), page.count() + right.count() + 1), (1000, keys.len()));
        return;
    }
}

#[test]
fn two_full_pages_come_of_any_page_and_the_largest_cell() {
    let key = vec![b'k'; 512];
    let value = vec![0; CELL_BYTES_MAX - 512 - 6];
    assert!(inline_cell(&key, &value).is_some() && inline_cell(&key, &[&value[..], b"x"].concat()).is_none());
    for small in 0..4 {
        let mut page = Page::leaf();
        let mut number = 0u32;
        let mut cell = |bytes: usize| {
            number += 1;
            cell_of(&[&[7; 3][..], &number.to_be_bytes()].concat(), &vec![0; bytes])
        };
        while page.insert(page.count(), &cell([0, 100, 700, 1300][small])) {}
        let at = page.count();
        let (right, _) = page.split(at, &cell(CELL_BYTES_MAX - 13));
        assert_eq!(page.count() + right.count(), at + 1);
    }
}

#[test]
fn a_page_with_any_bit_flipped_or_of_another_place_is_refused() {
    let mut page = Page::leaf();
    for number in 0..40u8 {
        assert!(page.insert(usize::from(number), &cell_of(&[number, 7], b"value")));
    }
    let sealed = |number| {
        let mut sealed = AlignedBuf::new();
        page.seal(5, number, 3, &mut sealed);
        sealed
    };
    assert!(Page::check(&sealed(9), 5, 9, 4).is_ok());
    assert!(Page::check(&sealed(9), 5, 10, 3).is_err() && Page::check(&sealed(9), 6, 9, 3).is_err());
    assert!(Page::check(&sealed(9), 5, 9, 2).is_err(), "one that is younger than its head");
    for bit in 0..8 * PAGE_BYTES {
        let mut flipped = sealed(9);
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Page::check(&flipped, 5, 9, 3).is_err(), "bit {bit}");
    }
}

#[test]
fn a_page_of_any_bytes_under_a_right_checksum_is_refused_or_safe_to_read() {
    let mut random = Random(11);
    let mut page = Page::leaf();
    for number in 0..100u8 {
        assert!(page.insert(usize::from(number), &cell_of(&[number, 7], &[number; 20])));
    }
    let mut passed = 0;
    for _ in 0..20_000 {
        let mut bytes = AlignedBuf::new();
        page.seal(5, 9, 3, &mut bytes);
        for _ in 0..1 + random.below(4) {
            // Mostly the header and the slots, where it matters.
            let among = if random.below(3) == 0 { 4092 } else { 240 };
            let at = 4 + random.below(among) as usize;
            bytes[at] = random.next() as u8;
        }
        let crc = super::page::checksum(5, 9, &bytes);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        if let Ok(page) = Page::check(&bytes, 5, 9, 3) {
            passed += 1;
            for at in 0..page.count() {
                assert_eq!(page.search(page.key(at)), Ok(at));
                let _ = if page.is_leaf() { page.value(at).len() } else { page.child(at + 1) as usize };
            }
        }
    }
    assert!(passed > 100, "{passed} passed: the test reaches nothing");
}

#[test]
fn the_example_of_the_format_page_is_what_is_written() {
    let mut page = Page::leaf();
    assert!(page.insert(0, &cell_of(b"k", b"v1")));
    let mut sealed = AlignedBuf::new();
    page.seal(5, 9, 3, &mut sealed);
    assert_eq!(sealed[4..22], [1, 0, 1, 0, 0xf9, 0x0f, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0xf9, 0x0f]);
    assert_eq!(sealed[4089..], *b"\x01\0\x02\0kv1");
    assert!(sealed[22..4089].iter().all(|byte| *byte == 0));
}

/// Fails when a reader goes on in a tree that a writer has left half changed by a panic.
#[test]
fn after_a_panic_within_a_change_nothing_is_read_and_nothing_written() {
    let io: Arc<dyn Io> = Arc::new(SimIo::new(1));
    io.create_dir_all(Path::new("db")).expect("a directory");
    let options = OpenOptions::new("db");
    let engine = open_with(io, &options, &BtreeOptions::of(&options), Behaviour::Honest).expect("an engine");
    let put = || engine.apply(&[Op::Put { key: b"k", value: b"v" }], Durability::Os);
    put().expect("written");
    let panicked = std::thread::scope(|scope| {
        let within = || {
            let _changing = engine.change();
            panic!("within a change");
        };
        scope.spawn(within).join()
    });
    assert!(panicked.is_err());
    assert_eq!(engine.get(b"k").map(drop).expect_err("half changed").kind(), ErrorKind::Poisoned);
    assert_eq!(put().expect_err("half changed").kind(), ErrorKind::Poisoned);
}
