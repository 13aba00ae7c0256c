//! Records and key lists of the log engine: whatever stands in the records and the footers of a log that is whole.

use std::path::Path;
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::Io;
use biombo_base::io::sim::SimIo;
use biombo_engine::Engine;
use biombo_journal::{Durability, Log, Lsn, Position};
use biombo_log::LogEngine;

use super::journal::small;
use crate::input::Input;
use crate::sequence::engine::{DIR, contents, open};
use crate::{Property, blames_the_bytes};

/// Records, batches, segments and footers, one after the other.
pub const PROPERTY: Property = Property { name: "log_records", holds, examples, cases: 300 };

/// Bytes of a record: as one of the engine's, or whatever stands there.
fn record(input: &mut Input<'_>, seq: u64) -> Vec<u8> {
    let kind = input.byte();
    if kind == 0xff {
        return input.bytes(60).to_vec();
    }
    let key = if kind & 0x80 == 0 { input.key() } else { input.bytes(20).to_vec() };
    let seq = if input.once_in(8) { input.u64() } else { seq };
    let mut record = vec![kind % 8, 0, 0, 0];
    record.extend_from_slice(&(key.len() as u32).to_le_bytes());
    record.extend_from_slice(&seq.to_le_bytes());
    record.extend_from_slice(&key);
    record.extend_from_slice(&if kind % 8 == 3 { input.key() } else { input.bytes(40).to_vec() });
    record
}

/// A key list, as `docs/format/log.md` draws it, or nearly.
fn list(input: &mut Input<'_>) -> Vec<u8> {
    let mut list = b"BKEY\x01\0\0\0".to_vec();
    for _ in 0..input.below(12) {
        let key = input.key();
        list.extend_from_slice(&[1 + input.byte() % 7, input.byte() % 8, input.byte(), key.len() as u8, input.byte()]);
        list.extend_from_slice(&key);
    }
    list.extend_from_slice(input.bytes(40));
    list
}

fn holds(data: &[u8]) {
    let mut input = Input::new(data);
    let sim = SimIo::new(5);
    let fine = "invariant: nothing is refused";
    sim.create_dir_all(Path::new(DIR)).expect(fine);
    let io: Arc<dyn Io> = Arc::new(sim.clone());
    let mut nothing = |_: Position, _: Lsn, _: &[u8]| Ok(());
    let (mut log, _) = Log::open(Arc::clone(&io), &Path::new(DIR).join("log"), small(), &mut nothing).expect(fine);
    let (mut seq, mut at) = (0, Vec::new());
    for _ in 0..40 {
        if input.is_over() {
            break;
        }
        match input.below(8) {
            0 => {
                let footer = list(&mut input);
                log.seal_with(&footer).expect(fine);
            }
            1 => {
                let mut cold = log.cold_writer().expect(fine);
                for _ in 0..input.below(5) {
                    seq += 1;
                    cold.append(&[&record(&mut input, seq)]).expect(fine);
                }
                let footer = if input.once_in(2) { list(&mut input) } else { Vec::new() };
                let cold = cold.finish(&footer).expect(fine);
                let replaced = log.install(cold, &[]).expect(fine);
                log.release(replaced);
            }
            _ => {
                let count = 1 + input.below(4);
                let records: Vec<Vec<u8>> = (0..count).map(|n| record(&mut input, seq + 1 + n as u64)).collect();
                seq += count as u64;
                let parts: Vec<[&[u8]; 1]> = records.iter().map(|record| [&record[..]]).collect();
                let parts: Vec<&[&[u8]]> = parts.iter().map(|parts| &parts[..]).collect();
                let level = if input.once_in(4) { Durability::Sync } else { Durability::Os };
                log.append(&parts, level, &mut at).expect(fine);
            }
        }
    }
    drop(log);
    match open(&sim) {
        Ok(engine) => _ = look_at(&engine),
        Err(error) => blames_the_bytes(&error, "open"),
    }
    let repaired = LogEngine::repair(&io, Path::new(DIR), &mut |_| {});
    match repaired {
        Ok(_) => {
            let engine = open(&sim).unwrap_or_else(|e| panic!("it was repaired and does not open: {e}"));
            assert_eq!(look_at(&engine), 0, "it was repaired and is damaged");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "repair: {error}"),
    }
}

/// Every way of reading ends in an answer or says that the bytes are wrong; where two ways give two answers (a list that names another
/// key than its record has is believed until somebody compares them), verification says so. Returns the damages that it found.
pub(crate) fn look_at(engine: &Arc<LogEngine>) -> usize {
    let mut damages = 0;
    if let Err(error) = engine.verify(&mut |_| damages += 1) {
        blames_the_bytes(&error, "verify");
        damages += 1;
    }
    match contents(engine) {
        Ok(state) => {
            for (key, value) in &state {
                if key.is_empty() {
                    continue;
                }
                match engine.get(key) {
                    Ok(found) => {
                        let agree = found.as_deref() == Some(&value[..]);
                        assert!(
                            agree || damages > 0,
                            "get gives {found:?} for {key:?}, a scan {value:?}, and verification nothing"
                        );
                    }
                    Err(error) => blames_the_bytes(&error, "get"),
                }
            }
        }
        Err(error) => blames_the_bytes(&error, "scan"),
    }
    damages
}

fn examples() -> Vec<Vec<u8>> {
    // Puts, deletions and lists of keys, by nothing but bytes that differ.
    (0..8u8).map(|n| (0..160u32).map(|i| ((i * 37 + u32::from(n) * 101) >> 2) as u8).collect()).collect()
}
