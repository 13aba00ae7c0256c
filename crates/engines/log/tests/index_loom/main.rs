//! The index under loom: the very modules of `src/index`, compiled over loom's atomics and over small chunks. Loom runs each
//! model in every order of its threads' steps (up to a bound of preemptions) and with every value that the memory model lets
//! a load see.
//!
//! Each model must hold as the code is, and must fail when one of the orderings that it is there for is weakened: a model that
//! cannot fail proves nothing.

#[path = "../../src/index"]
#[allow(
    dead_code,
    unused_imports,
    missing_docs,
    unreachable_pub,
    unfulfilled_lint_expectations,
    reason = "the models use a part of the modules"
)]
mod index {
    #[path = "arena/mod.rs"]
    pub mod arena;
    pub mod cursor;
    pub mod epoch;
    pub mod frozen;
    pub mod image;
    #[path = "../../tests/index_loom/memory.rs"]
    pub mod memory;
    #[path = "node/mod.rs"]
    pub mod node;
    #[path = "../../tests/index_loom/sync.rs"]
    pub mod sync;
    pub mod tree;
    pub mod walk;
    pub mod word;
    pub mod write;

    pub use tree::{Index, Keys, Pin};
    pub use word::Leaf;

    pub const KEY_BYTES_MAX: usize = 65536;
}

mod cell;

use std::panic::{AssertUnwindSafe, catch_unwind};

use cell::Shared;
use index::epoch::Epochs;
use index::frozen::Frozen;
use index::sync::{AtomicU64, Ordering, order, prepare_fences, weaken};
use index::{Index, Keys, Leaf};
use loom::sync::Arc;

/// Run `model` (the reader as the spawned thread: loom remembers one last access of a word only, and a writer that loads a
/// word before it stores hides the reader's load from loom) as the code is, and then with each of `mutants`, under which it must fail.
fn holds_and_needs(mutants: &[&str], model: impl Fn() + Clone + Send + Sync + 'static) {
    let check = || {
        let mut loom = loom::model::Builder::new();
        loom.preemption_bound = Some(3);
        loom.max_branches = 50_000;
        let model = model.clone();
        catch_unwind(AssertUnwindSafe(|| loom.check(model)))
    };
    weaken("none");
    if let Err(panic) = check() {
        std::panic::resume_unwind(panic);
    }
    for mutant in mutants {
        weaken(mutant);
        let survived = check().is_ok();
        weaken("none");
        assert!(!survived, "the model does not notice that '{mutant}' is weakened");
    }
}

/// A log whose keys are known; the records are words that are written before their leaf is inserted, as a log's bytes are.
struct Log {
    keys: &'static [&'static [u8]],
    records: Vec<AtomicU64>,
}

impl Log {
    fn new(keys: &'static [&'static [u8]]) -> Self {
        Self { keys, records: keys.iter().map(|_| AtomicU64::new(0)).collect() }
    }

    fn append(&self, at: usize) -> Leaf {
        self.records[at].store(1, Ordering::Relaxed);
        Leaf::new(at as u64).expect("small")
    }

    /// That `leaf` is a candidate for the key at one of `ats`, and its record is there.
    fn check(&self, leaf: Leaf, ats: &[usize]) {
        assert!(ats.contains(&(leaf.get() as usize)), "{leaf:?} instead of one of {ats:?}");
        assert_eq!(
            self.records[leaf.get() as usize].load(Ordering::Relaxed),
            1,
            "the record of {leaf:?} is not there yet"
        );
    }
}

impl Keys for &Log {
    fn with_key<R>(&self, leaf: Leaf, f: impl FnOnce(&[u8]) -> R) -> biombo_base::Result<R> {
        assert_eq!(
            self.records[leaf.get() as usize].load(Ordering::Relaxed),
            1,
            "the record of {leaf:?} is not there yet"
        );
        Ok(f(self.keys[leaf.get() as usize]))
    }
}

/// The first `stable` keys are there; a writer inserts the others while a reader looks for the first, the last of the stable ones
/// and the last of all, and scans.
fn inserting(keys: &'static [&'static [u8]], stable: usize, scan: bool) {
    let shared = Arc::new((Index::new(), Log::new(keys)));
    let (index, log) = &*shared;
    for (at, key) in keys.iter().enumerate().take(stable) {
        index.writer().insert(key, log.append(at), &log).expect("good");
    }
    let reading = shared.clone();
    let reader = loom::thread::spawn(move || read(&reading.0, &reading.1, stable, scan));
    for (at, key) in keys.iter().enumerate().skip(stable) {
        index.writer().insert(key, log.append(at), &log).expect("good");
    }
    reader.join().expect("the reader ends");
    let pin = index.pin();
    for (at, key) in keys.iter().enumerate() {
        log.check(pin.get(key).expect("whole").expect("there"), &[at]);
    }
}

fn read(index: &Index, log: &Log, stable: usize, scan: bool) {
    let keys = log.keys;
    let pin = index.pin();
    if scan {
        let mut leaves = Vec::new();
        pin.cursor(log).next_n(usize::MAX, &mut leaves).expect("whole");
        let found: Vec<&[u8]> = leaves.iter().map(|leaf| keys[leaf.get() as usize]).collect();
        leaves.iter().for_each(|leaf| log.check(*leaf, &[leaf.get() as usize]));
        assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "out of order: {found:?}");
        assert!(keys[..stable].iter().all(|key| found.contains(key)), "lost a key: {found:?}");
    } else {
        log.check(pin.get(keys[stable - 1]).expect("whole").expect("a stable key is found"), &[stable - 1]);
        // A candidate of the last key is that key or one that shares what a leaf beside it shares.
        if let Some(leaf) = pin.get(keys[keys.len() - 1]).expect("whole") {
            log.check(leaf, &(0..keys.len()).collect::<Vec<_>>());
        }
    }
}

fn a_key_is_added_to_a_small_node_in_place() {
    holds_and_needs(&["publish", "observe"], || inserting(&[b"a", b"b", b"c", b"d"], 3, false));
}

fn a_key_is_added_to_a_linear_node_in_place() {
    const KEYS: &[&[u8]] = &[b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"];
    holds_and_needs(&["publish", "observe"], || inserting(KEYS, 7, false));
}

fn a_node_that_is_full_is_replaced_by_a_larger_one() {
    holds_and_needs(&["publish", "observe"], || inserting(&[b"a", b"b", b"c"], 2, false));
    holds_and_needs(&["publish", "observe"], || inserting(&[b"a", b"b", b"c"], 2, true));
}

fn a_leaf_becomes_a_node_and_a_prefix_is_split() {
    holds_and_needs(&["publish", "observe"], || inserting(&[b"axy", b"axz"], 1, false));
    holds_and_needs(&["publish", "observe"], || inserting(&[b"axyz1", b"axyz2", b"ax"], 2, false));
    holds_and_needs(&["publish", "observe"], || inserting(&[b"axyz1", b"axyz2", b"ab"], 2, true));
}

fn a_node_of_every_sparse_kind_takes_a_key_in_place() {
    use index::node::{Kind, Node, NodeMut};
    use index::word::Word;
    for kind in [Kind::X80, Kind::N256] {
        holds_and_needs(&["publish", "observe"], move || {
            let words: Arc<Vec<AtomicU64>> = Arc::new((0..kind.words()).map(|_| AtomicU64::new(0)).collect());
            let record = Arc::new(AtomicU64::new(0));
            let leaf = |n| Word::from(Leaf::new(n).expect("small"));
            NodeMut::new(kind, &words).fill(0, &[(1, leaf(1)), (2, leaf(2))]);
            let reader = {
                let (words, record) = (words.clone(), record.clone());
                loom::thread::spawn(move || {
                    let node = Node::new(kind, &words);
                    match node.child(3) {
                        Word::EMPTY => {}
                        word => {
                            assert_eq!(word, leaf(3), "a slot before its content");
                            assert_eq!(record.load(Ordering::Relaxed), 1, "a leaf before its record");
                        }
                    }
                    assert_eq!((node.child(2), node.any_child()), (leaf(2), leaf(1)));
                })
            };
            record.store(1, Ordering::Relaxed);
            assert!(NodeMut::new(kind, &words).add(3, leaf(3)).expect("whole"));
            reader.join().expect("the reader ends");
        });
    }
}

fn a_leaf_is_replaced_by_one_whose_record_is_there() {
    holds_and_needs(&["publish", "observe"], || {
        let shared = Arc::new((Index::new(), Log::new(&[b"a", b"b", b"a"])));
        let (index, log) = &*shared;
        for at in 0..2 {
            index.writer().insert(log.keys[at], log.append(at), &log).expect("good");
        }
        let reading = shared.clone();
        let reader = loom::thread::spawn(move || {
            let (index, log) = &*reading;
            log.check(index.pin().get(b"a").expect("whole").expect("always there"), &[0, 2]);
        });
        let (old, new) = (Leaf::new(0).expect("small"), log.append(2));
        assert!(index.writer().replace(b"a", old, new).expect("whole"));
        reader.join().expect("the reader ends");
    });
}

fn a_key_is_removed_and_its_node_merged_away() {
    holds_and_needs(&["publish", "observe"], || {
        let shared = Arc::new((Index::new(), Log::new(&[b"axy", b"axz", b"ab", b"ac"])));
        let (index, log) = &*shared;
        for at in 0..3 {
            index.writer().insert(log.keys[at], log.append(at), &log).expect("good");
        }
        let reading = shared.clone();
        let reader = loom::thread::spawn(move || {
            let (index, log) = &*reading;
            let pin = index.pin();
            log.check(pin.get(b"axy").expect("whole").expect("always there"), &[0]);
            log.check(pin.cursor(log).seek(b"axz").expect("whole").expect("always there"), &[1]);
        });
        // The node of `ax` is copied with a longer prefix into its parent's place.
        assert!(index.writer().remove(b"ab", &log).expect("whole").is_some());
        reader.join().expect("the reader ends");
    });
}

/// The writer unlinks node 0, and writes over it once the epochs say that nobody can be there.
fn reclaiming() {
    prepare_fences();
    let shared = Arc::new((Epochs::new(), AtomicU64::new(0), [Shared::new(), Shared::new()]));
    let reading = shared.clone();
    let reader = loom::thread::spawn(move || {
        let (epochs, root, nodes) = &*reading;
        let announced = epochs.announce();
        nodes[root.load(order::observe()) as usize].read();
        drop(announced);
    });
    let (epochs, root, nodes) = &*shared;
    root.store(1, order::publish());
    let mark = epochs.current();
    if mark < epochs.advance() {
        nodes[0].write();
    }
    reader.join().expect("the reader ends");
}

fn a_node_is_written_again_only_when_no_reader_can_be_there() {
    holds_and_needs(&["advance", "leave", "scan", "pin fence", "scan fence"], reclaiming);
}

/// The checkpointer and the writer come to one chunk: the image gets what was there, and no copy is made under a change.
fn copying() {
    let shared = Arc::new((Frozen::new(&[false]), AtomicU64::new(7), Shared::new()));
    let taking = shared.clone();
    let checkpointer = loom::thread::spawn(move || {
        let (frozen, _, _) = &*taking;
        let copy = || copy_of(&taking);
        let words = match frozen.left(0) {
            Some(words) => words,
            None => frozen.take(0, copy),
        };
        assert_eq!(words, [7], "the image holds a later change");
    });
    let (frozen, word, chunk) = &*shared;
    frozen.before_change(0, || copy_of(&shared));
    chunk.write();
    word.store(8, Ordering::Relaxed);
    checkpointer.join().expect("the checkpointer ends");
}

fn copy_of((_, word, chunk): &(Frozen, AtomicU64, Shared)) -> Vec<u64> {
    chunk.read();
    vec![word.load(Ordering::Relaxed)]
}

fn a_chunk_is_copied_before_it_changes_by_whoever_comes_first() {
    holds_and_needs(&["copied", "copied seen"], copying);
}

fn main() {
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    // The models that must fail do so by panics that are none of the reader's business.
    std::panic::set_hook(Box::new(|_| {}));
    let models: [(&str, fn()); 9] = [
        ("a_key_is_added_to_a_small_node_in_place", a_key_is_added_to_a_small_node_in_place),
        ("a_key_is_added_to_a_linear_node_in_place", a_key_is_added_to_a_linear_node_in_place),
        ("a_node_that_is_full_is_replaced_by_a_larger_one", a_node_that_is_full_is_replaced_by_a_larger_one),
        ("a_leaf_becomes_a_node_and_a_prefix_is_split", a_leaf_becomes_a_node_and_a_prefix_is_split),
        ("a_node_of_every_sparse_kind_takes_a_key_in_place", a_node_of_every_sparse_kind_takes_a_key_in_place),
        ("a_leaf_is_replaced_by_one_whose_record_is_there", a_leaf_is_replaced_by_one_whose_record_is_there),
        ("a_key_is_removed_and_its_node_merged_away", a_key_is_removed_and_its_node_merged_away),
        (
            "a_node_is_written_again_only_when_no_reader_can_be_there",
            a_node_is_written_again_only_when_no_reader_can_be_there,
        ),
        (
            "a_chunk_is_copied_before_it_changes_by_whoever_comes_first",
            a_chunk_is_copied_before_it_changes_by_whoever_comes_first,
        ),
    ];
    let mut failed = false;
    for (name, model) in
        models.into_iter().filter(|(name, _)| wanted.as_ref().is_none_or(|w| name.contains(w.as_str())))
    {
        let result = catch_unwind(model);
        println!("model {name} ... {}", if result.is_ok() { "ok" } else { "FAILED" });
        if let Err(panic) = result {
            failed = true;
            let text = panic.downcast_ref::<String>().map(String::as_str);
            println!("  {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words"));
        }
    }
    assert!(!failed, "models failed");
}
