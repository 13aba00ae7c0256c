//! Checkpoints of the index: the file of one, damaged, over a log that is whole.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use biombo_base::Result;
use biombo_base::io::sim::SimIo;
use biombo_engine::{Batch, Durability, Engine};
use biombo_log::LogEngine;

use crate::files::{Files, damage_bytes, disk_of, files_of};
use crate::input::Input;
use crate::sequence::State;
use crate::sequence::engine::{DIR, contents, home, open};
use crate::{Property, blames_the_bytes, seal};

/// A byte of choices, then damage to the checkpoint.
pub const PROPERTY: Property = Property { name: "log_checkpoint", holds, examples, cases: 60 };

struct Whole {
    files: Files,
    state: State,
    /// All pairs that were ever written.
    ever: BTreeSet<(Vec<u8>, Vec<u8>)>,
}

fn key(n: u32) -> Vec<u8> {
    match n % 3 {
        0 => n.to_be_bytes()[2..].to_vec(),
        1 => format!("a path/{}/{n}", n % 7).into_bytes(),
        _ => vec![n as u8; 1 + n as usize % 20],
    }
}

/// An instance with a checkpoint and a tail behind it.
fn whole() -> &'static Whole {
    static WHOLE: OnceLock<Whole> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let sim = SimIo::new(4);
        let fine = "invariant: nothing is refused";
        home(&sim);
        let engine = open(&sim).expect(fine);
        let mut ever = BTreeSet::new();
        let mut write = |from: u32, to: u32| {
            for n in from..to {
                let (key, value) = (key(n), n.to_le_bytes().repeat(1 + n as usize % 9));
                let mut batch = Batch::new();
                batch.put(&key, &value);
                if n % 11 == 0 {
                    batch.delete(&self::key(n / 2));
                }
                engine.apply(&batch.to_ops(), Durability::Os).expect(fine);
                ever.insert((key, value));
            }
        };
        write(0, 150);
        write(120, 180);
        engine.save_index().expect(fine);
        write(170, 200);
        let state = contents(&engine).expect(fine);
        drop(engine);
        Whole { files: files_of(&sim), state, ever }
    })
}

/// Some of what a cursor finds. An image with right checksums and wrong nodes may lead it anywhere in the log, round in circles too.
fn walk(engine: &Arc<LogEngine>, each: impl Fn(&[u8], &[u8])) -> Result<()> {
    let mut cursor = Arc::clone(engine).cursor()?;
    cursor.first()?;
    for _ in 0..1000 {
        let (Some(key), Some(value)) = (cursor.key(), cursor.value()) else { break };
        each(key, value);
        cursor.next()?;
    }
    Ok(())
}

fn holds(data: &[u8]) {
    let Whole { files, state, ever } = whole();
    let mut input = Input::new(data);
    let choice = input.byte();
    let mut files = files.clone();
    let Some((_, image)) = files.iter_mut().find(|(path, _)| path.extension().is_some_and(|e| e == "index")) else {
        unreachable!("a checkpoint was written");
    };
    let whole = image.clone();
    // What carries something: the header, the nodes, the tail.
    let places: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    for _ in 0..16 {
        if input.is_over() {
            break;
        }
        let at = places[input.below(places.len())];
        match input.below(4) {
            0 => damage_bytes(image, &mut input),
            1 => image.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << input.below(8)),
            2 => image.iter_mut().skip(at).take(1).for_each(|byte| *byte = input.byte()),
            _ => {
                let number = input.u64().to_le_bytes();
                image.iter_mut().skip(at & !7).zip(number).for_each(|(to, from)| *to = from);
            }
        }
    }
    let is_sealed = choice & 1 == 0;
    if is_sealed {
        seal::checkpoint(image);
    }
    let sim = disk_of(&files, &[DIR]);
    let engine = match open(&sim) {
        Ok(engine) => engine,
        Err(error) => {
            assert!(is_sealed, "a checkpoint that is damaged keeps nobody from the log: {error}");
            return blames_the_bytes(&error, "open");
        }
    };
    let of_the_log = |key: &[u8], value: &[u8]| {
        assert!(ever.contains(&(key.to_vec(), value.to_vec())), "{key:?} never had {value:?}");
    };
    if is_sealed {
        if let Err(error) = walk(&engine, of_the_log) {
            blames_the_bytes(&error, "scan");
        }
    } else {
        let found = contents(&engine).expect("the log is whole");
        assert_eq!(found, *state, "a checkpoint whose checksum is wrong changed the contents");
    }
    for key in state.keys() {
        match engine.get(key) {
            Ok(found) => found.iter().for_each(|value| of_the_log(key, value)),
            Err(error) => blames_the_bytes(&error, "get"),
        }
    }
    if let Err(error) = engine.verify(&mut |_| {}) {
        blames_the_bytes(&error, "verify");
    }
    // Writing over what is damaged.
    for key in state.keys().step_by(9) {
        let mut batch = Batch::new();
        batch.put(key, b"new").delete(&key[..key.len().div_ceil(2)]);
        if let Err(error) = engine.apply(&batch.to_ops(), Durability::Os) {
            assert!(is_sealed, "{error}");
        }
    }
    drop(engine);
    repaired(&sim);
}

/// The checkpoint is derived from the log, which is whole: repair keeps all of that.
fn repaired(sim: &SimIo) {
    let io: Arc<dyn biombo_base::io::Io> = Arc::new(sim.clone());
    match LogEngine::repair(&io, Path::new(DIR), &mut |_| {}) {
        Ok(_) => {
            let engine = open(sim).unwrap_or_else(|e| panic!("it was repaired and does not open: {e}"));
            let _ = walk(&engine, |_, _| ());
        }
        Err(error) => blames_the_bytes(&error, "repair"),
    }
}

fn examples() -> Vec<Vec<u8>> {
    vec![vec![0], vec![1], vec![0, 9, 1, 3, 60, 2, 200], vec![1, 7, 2, 3]]
}
