//! Checkpoints: an openable copy of one point in history, taken while writes go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::subject::{Instance, Subject, bytes, must, must_refuse};
use crate::{Durability, Engine, ErrorKind, Op};

fn number(engine: &Arc<dyn Engine>, key: &[u8]) -> u64 {
    let value = must(engine.get(key), "get of a copy").map(|value| value.into_vec());
    value.map_or(0, |value| {
        u64::from_be_bytes(value[..8].try_into().unwrap_or_else(|_| panic!("a value of {} bytes", value.len())))
    })
}

/// A copy taken while another thread writes numbered entries holds exactly the entries up to one number: at least those
/// acknowledged before it began, at most those begun before it returned. It opens beside the original, which goes on, and
/// takes writes of its own.
pub fn check_checkpoint_is_one_point_under_writes(subject: &Subject) {
    if !subject.capabilities.checkpoints {
        return;
    }
    subject.bounded(|subject| {
        let instance = subject.instance();
        let (stop, begun, done) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let mut copies = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut n = 0u64;
                while !stop.load(Ordering::SeqCst) && n < 50_000 {
                    n += 1;
                    begun.store(n, Ordering::SeqCst);
                    let (entry, value) = (format!("entry {n:08}"), n.to_be_bytes());
                    let entry = Op::Put { key: entry.as_bytes(), value: &bytes(n, 100) };
                    let (left, right) =
                        (Op::Put { key: b"left", value: &value }, Op::Put { key: b"right", value: &value });
                    if subject.capabilities.atomic_batches {
                        must(instance.engine.apply(&[left, entry, right], Durability::Os), "write during a checkpoint");
                    } else {
                        for op in [left, entry, right] {
                            must(instance.engine.apply(&[op], Durability::Os), "write during a checkpoint");
                        }
                    }
                    done.store(n, Ordering::SeqCst);
                }
            });
            // The writer must stop even if a checkpoint panics: the scope waits for it.
            let stop_in_the_end = StopInTheEnd(&stop);
            for name in ["one", "two", "three"] {
                while done.load(Ordering::SeqCst) < 200 {
                    std::thread::yield_now();
                }
                let dest = instance.beside(name);
                if name == "two" {
                    std::fs::create_dir(&dest).unwrap_or_else(|e| panic!("{e}"));
                }
                let least = done.load(Ordering::SeqCst);
                must(instance.engine.checkpoint(&dest), "checkpoint");
                copies.push((dest, least, begun.load(Ordering::SeqCst)));
            }
            drop(stop_in_the_end);
        });
        for (dest, least, most) in copies {
            let copy = must((subject.open)(&dest), "open a copy beside the original");
            let (left, right) = (number(&copy, b"left"), number(&copy, b"right"));
            let last = if subject.capabilities.atomic_batches {
                assert_eq!(left, right, "half a batch is in the copy");
                left
            } else {
                assert!(
                    left == right || left == right + 1,
                    "the copy holds write {left} of `left` but {right} of `right`"
                );
                right
            };
            assert!(
                (least..=most).contains(&last),
                "the copy ends at {last}, but it began after {least} and ended before {most}"
            );
            for n in (1..=last).chain(last + 2..=most) {
                let value =
                    must(copy.get(format!("entry {n:08}").as_bytes()), "get of a copy").map(|value| value.into_vec());
                assert_eq!(value, (n <= last).then(|| bytes(n, 100)), "entry {n} of a copy that ends at {last}");
            }
            let mut damages = Vec::new();
            must(copy.verify(&mut |damage| damages.push(damage)), "verify a copy");
            assert_eq!(damages, [], "a copy is damaged");
            must(copy.apply(&[Op::Put { key: b"only here", value: b"v" }], Durability::Sync), "write to a copy");
            drop(copy);
            let copy = must((subject.open)(&dest), "open a copy again");
            assert_eq!(number(&copy, b"right"), right);
            assert_eq!(instance.get(b"only here"), None, "a write to the copy reached the original");
        }
        let written = done.load(Ordering::SeqCst);
        assert_eq!(number(&instance.engine, b"right"), written);
    });
}

struct StopInTheEnd<'a>(&'a AtomicBool);

impl Drop for StopInTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A destination that holds anything is refused and left alone; the instance itself is no destination either.
pub fn check_checkpoint_destination_must_be_empty(subject: &Subject) {
    if !subject.capabilities.checkpoints {
        return;
    }
    subject.bounded(|subject| {
        let instance = subject.instance();
        instance.put(b"k", b"v");
        let dest = instance.beside("taken");
        std::fs::create_dir(&dest)
            .and_then(|()| std::fs::write(dest.join("mine"), "precious"))
            .unwrap_or_else(|e| panic!("{e}"));
        must_refuse(
            instance.engine.checkpoint(&dest),
            ErrorKind::Invalid,
            "a checkpoint into a directory with a file in it",
        );
        let names: Vec<_> = std::fs::read_dir(&dest)
            .unwrap_or_else(|e| panic!("{e}"))
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(names, ["mine"], "a refused destination was changed");
        must_refuse(instance.engine.checkpoint(&dest.join("mine")), ErrorKind::Invalid, "a checkpoint onto a file");
        assert_eq!(std::fs::read(dest.join("mine")).ok().as_deref(), Some(&b"precious"[..]));
        must_refuse(
            instance.engine.checkpoint(&instance.dir),
            ErrorKind::Invalid,
            "a checkpoint into the instance itself",
        );
        let copy = instance.beside("copy");
        must(instance.engine.checkpoint(&copy), "checkpoint");
        must_refuse(instance.engine.checkpoint(&copy), ErrorKind::Invalid, "a checkpoint onto an earlier one");
        let instance: Instance = instance.reopen();
        assert_eq!(instance.get(b"k").as_deref(), Some(&b"v"[..]));
        let copy = must((subject.open)(&copy), "open the copy");
        assert_eq!(must(copy.get(b"k"), "get").as_deref(), Some(&b"v"[..]));
    });
}
