//! What a store keeps beside its engines: the manifest, the placement, the intents; opened over engines that are whole.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use biombo_base::io::Io;
use biombo_base::io::sim::SimIo;
use biombo_engine::{Batch, Durability};
use biombo_journal::{Durability as JournalDurability, Journal, JournalOptions};
use biombo_store::{PlacementKind, Store};

use crate::files::{Files, disk_of, files_of};
use crate::input::Input;
use crate::sequence::State;
use crate::sequence::store::{DIR, contents, open, options};
use crate::{Property, blames_the_bytes, seal};

/// A byte of choices, then the text of the manifest.
pub const MANIFEST: Property =
    Property { name: "store_manifest", holds: manifest, examples: manifest_examples, cases: 150 };
/// A byte of choices, then a record behind those of the journal of placements.
pub const PLACEMENT: Property =
    Property { name: "store_placement", holds: placement, examples: placement_examples, cases: 100 };
/// Intents, behind which marks may be missing: stored keys of every form.
pub const INTENTS: Property = Property { name: "store_intents", holds: intents, examples: intent_examples, cases: 150 };

struct Whole {
    files: Files,
    state: State,
}

fn whole(kind: PlacementKind) -> &'static Whole {
    static HASH: OnceLock<Whole> = OnceLock::new();
    static RANGE: OnceLock<Whole> = OnceLock::new();
    let whole = if kind == PlacementKind::Hash { &HASH } else { &RANGE };
    whole.get_or_init(|| {
        let sim = SimIo::new(6);
        let fine = "invariant: nothing is refused";
        let store = open(&sim, options(&sim).placement(kind)).expect(fine);
        let mut batch = Batch::new();
        for n in 0..40u8 {
            batch.put(&[n * 6, n], &[n; 9]).put(&[0, n], b"a key that is stored longer");
        }
        store.write_with(&batch, Durability::Sync).expect(fine);
        let state = contents(&store).expect(fine);
        drop(store);
        Whole { files: files_of(&sim), state }
    })
}

/// Open what is on the disk, look at all of it, and once more: nothing has changed.
fn look_at(sim: &SimIo) -> Option<State> {
    let mut seen = None;
    for round in 0..2 {
        let store = match open(sim, options(sim)) {
            Ok(store) => store,
            Err(error) => {
                assert_eq!(round, 0, "it was open before: {error}");
                blames_the_bytes(&error, "open");
                return None;
            }
        };
        let state = look_into(&store);
        if round == 1 {
            assert_eq!(state, seen, "opening changed what is there");
        }
        seen = state;
    }
    seen
}

fn look_into(store: &Store) -> Option<State> {
    for key in [&b"\0"[..], b"\0\0", b"k", b"\xff\xff"] {
        assert!(u32::from(store.route(key).0) < store.partitions());
        if let Err(error) = store.get(key) {
            blames_the_bytes(&error, "get");
        }
    }
    match contents(store) {
        Ok(state) => Some(state),
        Err(error) => {
            blames_the_bytes(&error, "scan");
            None
        }
    }
}

fn manifest(data: &[u8]) {
    let Some((&choice, text)) = data.split_first() else { return };
    let Whole { files, state } = whole(PlacementKind::Hash);
    let mut files = files.clone();
    let text = if choice & 1 == 0 { seal::store_manifest(text) } else { text.to_vec() };
    let name = if choice & 6 == 6 { "CREATING" } else { "MANIFEST" };
    let path = Path::new(DIR).join(name);
    if name == "CREATING" {
        files.remove(&Path::new(DIR).join("MANIFEST"));
    }
    let is_whole = files.get(&path) == Some(&text);
    files.insert(path, text);
    let found = look_at(&disk_of(&files, &[DIR]));
    assert!(!is_whole || found.as_ref() == Some(state), "the manifest is as it was");
}

fn manifest_examples() -> Vec<Vec<u8>> {
    let files = &whole(PlacementKind::Hash).files;
    let text = &files[&Path::new(DIR).join("MANIFEST")];
    [0, 1, 6].map(|choice| [&[choice], &text[..]].concat()).to_vec()
}

/// The disk of a store with one more record in one of its journals.
fn with_records(kind: PlacementKind, journal: &str, records: &[&[u8]]) -> SimIo {
    let sim = disk_of(&whole(kind).files, &[DIR]);
    let options = JournalOptions { segment_bytes: 16 << 10, ..JournalOptions::default() };
    let fine = "invariant: the store's journals are whole";
    let io: Arc<dyn Io> = Arc::new(sim.clone());
    let journal = Journal::open(io, &Path::new(DIR).join(journal), options, &mut |_, _| Ok(())).expect(fine);
    for record in records {
        journal.append(record, JournalDurability::Sync).expect(fine);
    }
    drop(journal);
    sim
}

fn placement(data: &[u8]) {
    let Some((&choice, record)) = data.split_first() else { return };
    let kind = if choice & 1 == 0 { PlacementKind::Hash } else { PlacementKind::Range };
    // Owners of slots that are not given are the first partition.
    let mut record = record.to_vec();
    if choice & 2 == 2 {
        record.resize(14 + 4096 * 2, 0);
    }
    look_at(&with_records(kind, "placement", &[&record]));
}

fn placement_examples() -> Vec<Vec<u8>> {
    let mut range = vec![1, 1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    for start in [&b"k"[..], b"m"] {
        range.extend_from_slice(&(start.len() as u32).to_le_bytes());
        range.extend_from_slice(start);
    }
    let hash = vec![2, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 1, 0, 1, 0];
    // A move of slot 5 that began, and one that says it flipped; a flip and a clean record of no move.
    let begun = |flipped: u8| vec![0, 2, 1, 0, 0, 0, 0, 0, 0, 0, flipped, 1, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0];
    let flip = vec![0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    let clean = vec![0, 4, 1, 0, 0, 0, 0, 0, 0, 0];
    vec![range, hash, begun(0), begun(1), flip, clean]
}

fn intents(data: &[u8]) {
    let mut input = Input::new(data);
    let mut records = Vec::new();
    for number in 0..1 + input.below(3) {
        records.push(if input.once_in(6) { input.bytes(80).to_vec() } else { intent(&mut input, number as u64) });
    }
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    look_at(&with_records(PlacementKind::Hash, "intents", &records));
}

/// An intent as `docs/format/store.md` draws it, or nearly, with keys of every stored form.
fn intent(input: &mut Input<'_>, number: u64) -> Vec<u8> {
    let number = if input.once_in(4) { input.u64() } else { 100 + number };
    let mut record = vec![1];
    record.extend_from_slice(&number.to_le_bytes());
    let slices = input.below(4) as u16;
    record.extend_from_slice(&slices.to_le_bytes());
    let field = |record: &mut Vec<u8>, bytes: &[u8]| {
        record.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        record.extend_from_slice(bytes);
    };
    for partition in 0..slices {
        let partition = if input.once_in(6) { input.byte() } else { partition as u8 % 2 };
        record.extend_from_slice(&u16::from(partition).to_le_bytes());
        let ops = input.below(4) as u32;
        record.extend_from_slice(&ops.to_le_bytes());
        for _ in 0..ops {
            let kind = 1 + input.byte() % 5;
            record.push(kind);
            field(&mut record, &input.key());
            if kind != 2 && kind != 4 {
                field(&mut record, &input.key());
            }
        }
    }
    record.truncate(record.len() - input.below(3).min(record.len()));
    record
}

fn intent_examples() -> Vec<Vec<u8>> {
    (0..6u8).map(|n| (0..90u32).map(|i| ((i * 53 + u32::from(n) * 61) >> 2) as u8).collect()).collect()
}
