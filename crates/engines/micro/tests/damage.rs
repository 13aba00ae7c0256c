//! Bits that flip at rest are refused on opening, or reported, or lie in bytes that say nothing; they never come back as data. Missing,
//! foreign and newer files are refused with an error that says what to do.

mod subject;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::sim::{Crash, Random, SimIo};
use biombo_base::io::{Io, OpenMode, RealIo};
use biombo_engine::crash_suite::{DIR, Model, contents, disk, random_batch};
use biombo_engine::{Durability, Engine, EngineKind, Error, Op, OpenOptions};
use biombo_micro::Behaviour::{Honest, Published};
use biombo_micro::{btree, lsm};
use subject::Subject;

fn btree_subject() -> Subject {
    let mut own = btree::BtreeOptions {
        dirty_pages_max: 4,
        checkpoint_bytes: 16 << 10,
        ..btree::BtreeOptions::of(&OpenOptions::new(DIR))
    };
    own.journal.segment_bytes = 16 << 10;
    Subject::new(move |io| btree::open_with(Arc::new(io.clone()), &OpenOptions::new(DIR), &own, Honest))
}

fn lsm_subject() -> Subject {
    let mut own = lsm::LsmOptions {
        memtable_bytes_max: 16 << 10,
        table_bytes: 16 << 10,
        level0_tables_max: 2,
        level1_bytes_max: 24 << 10,
        ..lsm::LsmOptions::of(&OpenOptions::new(DIR), Honest)
    };
    own.journal.segment_bytes = 16 << 10;
    Subject::new(move |io| lsm::open_with(Arc::new(io.clone()), &OpenOptions::new(DIR), &own, Honest))
}

/// A store that was killed: everything is there, some of it in the journal alone.
fn killed(subject: &Subject, seed: u64) -> (SimIo, Model) {
    let (sim, mut model, mut random) = (disk(seed), Model::new(), Random(seed));
    let engine = subject.open(&sim).expect("open");
    for number in 0..120 {
        let batch = random_batch(&mut random, number);
        model.begin(&batch.to_ops());
        engine.apply(&batch.to_ops(), Durability::Sync).expect("apply");
    }
    (sim.crash(sim.event_count(), Crash::Kill), model)
}

fn flips(subject: &Subject, places: u64, files_min: usize) {
    let (sim, model) = killed(subject, 7);
    let files: Vec<(PathBuf, u64)> = sim.files().into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    let points = sim.crash_points();
    let mut random = Random(8);
    let mut found: BTreeMap<(String, &str), u32> = BTreeMap::new();
    for _ in 0..places {
        let (path, bytes) = &files[random.below(files.len() as u64) as usize];
        // Mostly near the beginning of a page, where its header is.
        let offset = match random.below(3) {
            0 => random.below(*bytes),
            _ => (random.below(*bytes) & !4095) + random.below(80).min(bytes - 1),
        };
        let offset = offset.min(bytes - 1);
        let image = points.image(Crash::Kill);
        image.flip_bit(path, offset, random.next() as u8 & 7).expect("within the file");
        let what = format!("{} at {offset}", path.display());
        let name = path.extension().or(path.file_name()).expect("a name").to_string_lossy().into_owned();
        let outcome = match subject.open(&image) {
            Err(error) => {
                let named = error.kind() == ErrorKind::Corruption && error.place().is_some();
                // The marker's own words may be changed into those of another engine or version.
                assert!(named || name == "BIOMBO-MICRO", "{what}: {:?}: {error}", error.kind());
                "refused"
            }
            Ok(engine) => {
                let mut reported = 0;
                engine.verify(&mut |_| reported += 1).expect("verify");
                match reported {
                    0 => {
                        // Nothing tells the last record of a journal that is damaged from one that was never written whole.
                        let state = contents(&engine);
                        let is_tail = name == "seg" && state == *model.before_last();
                        assert!(state == *model.last() || is_tail, "{what}: nobody has told");
                        "silent"
                    }
                    _ => "reported",
                }
            }
        };
        *found.entry((name, outcome)).or_default() += 1;
    }
    let refused = found.keys().filter(|(_, outcome)| *outcome != "silent").map(|(name, _)| name);
    let mut names: Vec<_> = refused.collect();
    names.dedup();
    assert!(names.len() >= files_min, "{found:?}");
    println!("{found:?}");
}

#[test]
fn a_bit_that_flips_in_a_btree_never_comes_back_as_data() {
    flips(&btree_subject(), 3000, 4);
}

#[test]
fn a_bit_that_flips_in_an_lsm_tree_never_comes_back_as_data() {
    flips(&lsm_subject(), 3000, 5);
}

fn kinds() -> Vec<EngineKind> {
    vec![btree::kind(Honest), btree::kind(Published), lsm::kind(Honest), lsm::kind(Published)]
}

fn refusal(kind: &EngineKind, dir: &Path) -> Error {
    match (kind.open)(&OpenOptions::new(dir)) {
        Ok(_) => panic!("{}: opened", kind.name),
        Err(error) => error,
    }
}

#[test]
fn what_is_missing_foreign_or_newer_is_refused_with_what_to_do() {
    for kind in kinds() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        {
            let engine = (kind.open)(&OpenOptions::new(dir)).expect("a new one");
            engine.apply(&[Op::Put { key: b"k", value: b"v" }], Durability::Sync).expect("put");
        }
        let marker = dir.join("BIOMBO-MICRO");
        let rewrite = |line: &str| {
            let file = RealIo::new().open(&marker, OpenMode::WRITE).expect("open");
            file.set_len(0).and_then(|()| file.write_at(line.as_bytes(), 0)).expect("write");
        };
        for (line, expected, says) in [
            (format!("biombo {} 2\n", kind.name), ErrorKind::Unsupported, "version 2"),
            ("biombo other 1\n".to_owned(), ErrorKind::Invalid, "the engine other"),
            ("biombo".to_owned(), ErrorKind::Corruption, "restore"),
            ("\u{fffd}\n".to_owned(), ErrorKind::Corruption, "restore"),
        ] {
            rewrite(&line);
            let error = refusal(&kind, dir);
            assert_eq!(error.kind(), expected, "{}, {line:?}: {error}", kind.name);
            assert!(error.to_string().contains(says), "{}, {line:?}: {error}", kind.name);
        }
        rewrite(&format!("biombo {} 1\n", kind.name));
        for other in kinds().iter().filter(|other| other.name != kind.name) {
            let error = refusal(other, dir);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains(&format!("the engine {}:", kind.name)), "{error}");
        }
        assert!((kind.open)(&OpenOptions::new(dir)).is_ok(), "refusals have changed nothing");
        // Nothing that the marker speaks of may be missing, and nothing is made anew in its place.
        let names = RealIo::new().read_dir(dir).expect("a list");
        for name in names.iter().filter(|name| name.as_os_str() != "BIOMBO-MICRO") {
            let (from, to) = (dir.join(name), dir.with_extension("away"));
            RealIo::new().rename(&from, &to).expect("move away");
            let error = refusal(&kind, dir);
            assert_eq!(error.kind(), ErrorKind::Corruption, "{} without {}: {error}", kind.name, name.display());
            let _ = RealIo::new().remove_dir_all(&from);
            RealIo::new().rename(&to, &from).expect("move back");
        }
        let engine = (kind.open)(&OpenOptions::new(dir)).expect("all is there again");
        assert_eq!(engine.get(b"k").expect("get").as_deref(), Some(&b"v"[..]), "{}", kind.name);
    }
}

#[test]
fn a_published_btree_that_was_not_closed_is_refused() {
    let sim = disk(1);
    let subject = Subject::new(|io: &SimIo| {
        let options = OpenOptions::new(DIR);
        btree::open_with(Arc::new(io.clone()), &options, &btree::BtreeOptions::of(&options), Published)
    });
    let engine = subject.open(&sim).expect("a new one");
    engine.apply(&[Op::Put { key: b"k", value: b"v" }], Durability::Sync).expect("put");
    let killed = sim.crash(sim.event_count(), Crash::Kill);
    let error = subject.open(&killed).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("was not closed"), "{error}");
    drop(engine);
    let closed = sim.crash(sim.event_count(), Crash::Nothing);
    let engine = subject.open(&closed).expect("it was closed");
    assert_eq!(engine.get(b"k").expect("get").as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_published_lsm_tree_that_was_not_closed_has_lost_what_was_in_memory_alone() {
    let sim = disk(1);
    let subject = Subject::new(|io: &SimIo| {
        let options = OpenOptions::new(DIR);
        lsm::open_with(Arc::new(io.clone()), &options, &lsm::LsmOptions::of(&options, Published), Published)
    });
    let engine = subject.open(&sim).expect("a new one");
    for number in 0..2500u32 {
        engine.apply(&[Op::Put { key: &number.to_be_bytes(), value: b"v" }], Durability::Os).expect("put");
    }
    let killed = subject.open(&sim.crash(sim.event_count(), Crash::Nothing)).expect("tables are whole");
    for (number, is_there) in [(0u32, true), (1999, true), (2000, false), (2499, false)] {
        assert_eq!(killed.contains(&number.to_be_bytes()).expect("get"), is_there, "{number}");
    }
    engine.sync().expect("sync");
    let synced = subject.open(&sim.crash(sim.event_count(), Crash::Nothing)).expect("tables are whole");
    assert!(synced.contains(&2499u32.to_be_bytes()).expect("get"));
}

#[test]
fn a_btree_whose_newer_head_is_damaged_goes_on_from_the_other_and_the_journal() {
    // Every operation finds a checkpoint due; the journal's one segment has everything since the first.
    let mut own = btree::BtreeOptions { checkpoint_bytes: 1, ..btree::BtreeOptions::of(&OpenOptions::new(DIR)) };
    own.journal.segment_bytes = 256 << 10;
    let subject = Subject::new(move |io| btree::open_with(Arc::new(io.clone()), &OpenOptions::new(DIR), &own, Honest));
    let (sim, mut model, mut random) = (disk(3), Model::new(), Random(3));
    let engine = subject.open(&sim).expect("open");
    for number in 0..6 {
        let batch = random_batch(&mut random, number);
        model.begin(&batch.to_ops());
        engine.apply(&batch.to_ops(), Durability::Sync).expect("apply");
    }
    let mut sound = 0;
    for head in [0, 4096] {
        let image = sim.crash(sim.event_count(), Crash::Kill);
        image.flip_bit(Path::new("db/tree.pages"), head + 30, 1).expect("within the file");
        let engine = subject.open(&image).expect("the other head");
        assert_eq!(contents(&engine), *model.last(), "head at {head}");
        sound += engine.verify(&mut |damage| panic!("{damage:?}")).expect("verify");
    }
    assert_eq!(sound, 2 * model.last().len() as u64);
}

/// Bits that flip while an instance is open, in what only its next opening reads: a verification tells of them before that.
#[test]
fn what_leads_to_the_data_is_verified_too() {
    type Case = (Subject, &'static str, fn(u64) -> u64);
    let cases: [Case; 4] = [
        (btree_subject(), "BIOMBO-MICRO", |_| 8),
        (lsm_subject(), "BIOMBO-MICRO", |_| 8),
        (lsm_subject(), "TABLES", |_| 20),
        // The footer of a table.
        (lsm_subject(), ".table", |bytes| bytes - 4096 + 16),
    ];
    for (subject, ending, place) in &cases {
        let (sim, _) = killed(subject, 9);
        let engine = subject.open(&sim).expect("open");
        engine.verify(&mut |damage| panic!("{damage:?}")).expect("verify");
        let ends = |path: &Path| path.to_string_lossy().ends_with(ending);
        let (path, bytes) = sim.files().into_iter().find(|(path, _)| ends(path)).expect("the file");
        sim.flip_bit(&path, place(bytes), 3).expect("within the file");
        let mut found = Vec::new();
        engine.verify(&mut |damage| found.push(damage)).expect("verify");
        let name = path.file_name().expect("a name");
        assert!(found.iter().any(|damage| damage.file.ends_with(name)), "{}: {found:?}", path.display());
    }
    // Of the tree's two heads one is the last checkpoint's.
    let (sim, _) = killed(&btree_subject(), 9);
    let engine = btree_subject().open(&sim).expect("open");
    let reported = |at: u64| {
        sim.flip_bit(Path::new("db/tree.pages"), at, 1).expect("within the file");
        let mut found = 0;
        engine.verify(&mut |_| found += 1).expect("verify");
        sim.flip_bit(Path::new("db/tree.pages"), at, 1).expect("within the file");
        found
    };
    assert_eq!([reported(30), reported(4096 + 30)].into_iter().filter(|found| *found > 0).count(), 1);
}

/// Fails if a journal that is gone is taken for one that is to be made, where everything is in the journal alone.
#[test]
fn a_journal_that_is_gone_is_damage_before_the_first_checkpoint_too() {
    for subject in [btree_subject(), lsm_subject()] {
        let sim = disk(1);
        let engine = subject.open(&sim).expect("a new one");
        engine.apply(&[Op::Put { key: b"k", value: b"v" }], Durability::Sync).expect("put");
        let image = sim.crash(sim.event_count(), Crash::Kill);
        image.remove_dir_all(&Path::new(DIR).join("journal")).expect("it is there");
        let error = subject.open(&image).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains("restore"), "{error}");
    }
}

#[test]
fn tables_that_nobody_names_are_removed_on_opening_and_nothing_else_is() {
    let (sim, subject) = (disk(1), lsm_subject());
    let put = |engine: &Arc<dyn Engine>, key: &[u8]| engine.apply(&[Op::Put { key, value: b"v" }], Durability::Sync);
    put(&subject.open(&sim).expect("a new one"), b"k").expect("put");
    let names = |sim: &SimIo| -> Vec<_> { sim.files().into_iter().map(|(path, _)| path).collect() };
    let before = names(&sim);
    assert!(before.iter().any(|path| path.extension().is_some_and(|extension| extension == "table")), "{before:?}");
    for stray in ["00000000000000ff.table", "TABLES.new", "notes.txt"] {
        sim.open(&Path::new(DIR).join(stray), OpenMode::CREATE_NEW).expect("a file");
    }
    let engine = subject.open(&sim).expect("open");
    let mut after = names(&sim);
    after.retain(|path| *path != Path::new(DIR).join("notes.txt"));
    assert_eq!(after, before);
    assert_eq!(engine.get(b"k").expect("get").as_deref(), Some(&b"v"[..]));
}
