//! Backup files.

use std::path::Path;
use std::sync::OnceLock;

use biombo_base::io::sim::SimIo;
use biombo_base::io::{Io, OpenMode};
use biombo_engine::{Batch, Durability, ErrorKind};
use biombo_store::Store;

use crate::files::files_of;
use crate::sequence::store::{contents, open, options, registry};
use crate::{Property, blames_the_bytes, seal};

/// A byte of choices, then the file.
pub const PROPERTY: Property = Property { name: "store_backup", holds, examples, cases: 100 };

const FILE: &str = "home/backup";

fn restore(io: &SimIo, dir: &str) -> biombo_base::Result<Store> {
    Store::restore(Path::new(FILE), Path::new(dir), options(io).partitions(2), &registry(io))
}

fn holds(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if choice & 1 == 0 {
        seal::backup(&mut bytes);
    }
    let sim = SimIo::new(9);
    let fine = "invariant: nothing is refused";
    sim.create_dir_all(Path::new("home")).expect(fine);
    let file = sim.open(Path::new(FILE), OpenMode::CREATE_NEW).expect(fine);
    file.write_at(&bytes, 0).expect(fine);
    let store = match restore(&sim, "one") {
        Ok(store) => store,
        Err(error) => {
            blames_the_bytes(&error, "restore");
            assert!(
                sim.files().iter().all(|(path, _)| path == Path::new(FILE)),
                "a failed restore left {:?}",
                sim.files()
            );
            return;
        }
    };
    let state = contents(&store).expect("what was restored can be read");
    // A backup of what was restored says the same.
    let keys = store.backup(Path::new(FILE)).expect("it can be saved again");
    assert_eq!(keys, state.len() as u64);
    drop(store);
    assert_eq!(restore(&sim, "one").err().map(|e| e.kind()), Some(ErrorKind::Invalid), "there is a store already");
    let again = restore(&sim, "two").expect("it was just saved");
    assert_eq!(contents(&again).expect("it was just restored"), state);
}

fn examples() -> Vec<Vec<u8>> {
    static SAVED: OnceLock<Vec<u8>> = OnceLock::new();
    let saved = SAVED.get_or_init(|| {
        let sim = SimIo::new(8);
        let fine = "invariant: nothing is refused";
        let store = open(&sim, options(&sim)).expect(fine);
        let mut batch = Batch::new();
        for n in 0..6u8 {
            batch.put(&[n, n], &[n; 12]);
        }
        store.write_with(&batch, Durability::Sync).expect(fine);
        sim.create_dir_all(Path::new("home")).expect(fine);
        store.backup(Path::new(FILE)).expect(fine);
        drop(store);
        files_of(&sim).remove(Path::new(FILE)).unwrap_or_default()
    });
    [0, 1].map(|choice| [&[choice], &saved[..]].concat()).to_vec()
}
