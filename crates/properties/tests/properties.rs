//! Every property, on its examples, on inputs that once broke it, on random bytes, and on examples with bytes changed.

use std::path::Path;

use biombo_properties::{ALL, Property};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

fn property(name: &str) -> Property {
    *ALL.iter().find(|property| property.name == name).expect("a property of this name")
}

/// Some bytes changed, cut, put in or doubled, as a fuzzer does.
fn changed(mut bytes: Vec<u8>, changes: &[(u8, prop::sample::Index, Vec<u8>)]) -> Vec<u8> {
    for (kind, at, with) in changes {
        let at = at.index(bytes.len() + 1);
        match kind % 4 {
            0 => bytes.iter_mut().skip(at).zip(with).for_each(|(to, from)| *to = *from),
            1 => drop(bytes.splice(at..at, with.iter().copied())),
            2 => drop(bytes.drain(at..bytes.len().min(at + with.len()))),
            _ => {
                let piece = bytes[at..bytes.len().min(at + 8 * with.len())].to_vec();
                bytes.extend_from_slice(&piece);
            }
        }
    }
    bytes
}

fn try_all(name: &str) {
    let property = property(name);
    let mut examples = (property.examples)();
    examples.push(Vec::new());
    let regressions = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions").join(name);
    if let Ok(found) = std::fs::read_dir(regressions) {
        for entry in found {
            let path = entry.expect("an entry").path();
            println!("{}", path.display());
            examples.push(std::fs::read(path).expect("an input can be read"));
        }
    }
    examples.iter().for_each(|example| (property.holds)(example));
    let config = Config {
        cases: property.cases,
        max_shrink_iters: 2000,
        failure_persistence: None,
        // The same inputs each time: `make fuzz` is there to find new ones.
        rng_seed: RngSeed::Fixed(1),
        ..Config::default()
    };
    let change = (any::<u8>(), any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..9));
    let changes = prop::collection::vec(change, 1..12);
    let random = prop::collection::vec(any::<u8>(), 0..300);
    let example = (prop::sample::select(examples), changes).prop_map(|(bytes, changes)| changed(bytes, &changes));
    let inputs = prop_oneof![1 => random, 2 => example];
    let run = TestRunner::new(config).run(&inputs, |bytes| {
        (property.holds)(&bytes);
        Ok(())
    });
    run.unwrap_or_else(|e| {
        panic!("{name}: {e}\nkeep the input as a file in regressions/{name}/ once it is understood")
    });
}

macro_rules! properties {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            try_all(stringify!($name));
        })*

        #[test]
        fn each_property_is_tried_here_and_has_a_fuzz_target() {
            let here = [$(stringify!($name)),*];
            let all: Vec<&str> = ALL.iter().map(|property| property.name).collect();
            assert_eq!(here.to_vec(), all);
            let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
            let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).expect("fuzz/Cargo.toml");
            for name in all {
                let target = fuzz.join(format!("fuzz_targets/{name}.rs"));
                let text = std::fs::read_to_string(&target).unwrap_or_else(|e| panic!("{}: {e}", target.display()));
                assert!(text.contains(&format!("\"{name}\"")), "{} is another's", target.display());
                assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml lacks {name}");
            }
        }
    };
}

properties! {
    journal_frames journal_files log_records log_checkpoint index_image
    store_manifest store_placement store_intents store_backup text_lines lab_json
    index_ops journal_ops engine_ops store_ops
}
