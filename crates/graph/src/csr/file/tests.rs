//! Saved graphs come back as they were, or not at all: after any crash, any refusal of the disk, any damage.

use biombo_base::checksum::crc32c;
use biombo_base::coding::{put_u32, put_u64};
use biombo_base::io::sim::{Crash, Fault, FaultKind, SimIo};

use super::body::{Stored, put};
use super::header::{HEADER_BYTES, Header, VERSION};
use super::*;
use crate::Edge;
use crate::csr::Shape;
use crate::team::Team;

const DIR: &str = "data/graph";

fn graph(vertices: usize, edges: &[Edge], shape: Shape) -> Csr {
    Csr::build(vertices, edges, shape, &mut Team::new(1).unwrap()).unwrap()
}

/// Everything that a graph says: direction, ids, lists outward and inward.
pub(super) type Told = (bool, Vec<u64>, Vec<Vec<u32>>, Vec<Vec<u32>>);

pub(super) fn told(graph: &Csr, ids: &Ids) -> Told {
    let vertices = 0..graph.vertices() as u32;
    let out = vertices.clone().map(|v| graph.out_neighbors(v).to_vec());
    let inward = vertices.clone().map(|v| graph.in_neighbors(v).to_vec());
    let named = vertices.clone().map(|v| ids.id(v).expect("an id"));
    (graph.is_directed(), named.collect(), out.collect(), inward.collect())
}

/// Two graphs of several chunks' length in all sections, with names of their own, and small ones.
pub(super) fn examples() -> Vec<(Csr, Ids)> {
    sized(150_000)
}

pub(super) fn sized(many: u32) -> Vec<(Csr, Ids)> {
    let edges: Vec<Edge> = (0..3 * many).map(|n| [n % many, (n * 7 + n / many) % many]).collect();
    let names = (0..u64::from(many)).map(|n| n * n + 5).collect();
    vec![
        (graph(many as usize, &edges, Shape::DIRECTED), Ids::ascending(names).unwrap()),
        (graph(many as usize, &edges, Shape::UNDIRECTED), Ids::dense(many as usize)),
        (
            graph(3, &[[0, 1], [0, 2], [1, 2], [2, 2]], Shape::DIRECTED),
            Ids::ascending(vec![7, 1 << 40, u64::MAX]).unwrap(),
        ),
        (graph(0, &[], Shape::UNDIRECTED), Ids::dense(0)),
        (graph(5, &[], Shape::DIRECTED), Ids::dense(5)),
    ]
}

#[test]
fn what_is_saved_comes_back() {
    for (graph, ids) in examples() {
        let io = SimIo::new(1);
        assert!(!exists(&io, Path::new(DIR)).unwrap());
        save(&io, Path::new(DIR), &graph, &ids).unwrap();
        assert!(exists(&io, Path::new(DIR)).unwrap());
        let (read, read_ids) = open(&io, Path::new(DIR)).unwrap();
        assert!(told(&read, &read_ids) == told(&graph, &ids));
    }
    let (graph, _) = sized(10).pop().unwrap();
    assert!(save(&SimIo::new(1), Path::new(DIR), &graph, &Ids::dense(4)).is_err());
}

#[test]
fn what_an_interrupted_save_left_shows_nowhere_in_the_next_one() {
    let (graph, ids) = sized(10).remove(2);
    let saved = |left: usize| {
        let io = SimIo::new(2);
        create_dir(&io, Path::new(DIR)).unwrap();
        io.open(&Path::new(DIR).join(Kind::STATIC.name_new), OpenMode::WRITE)
            .unwrap()
            .write_at(&vec![0xff; left], 0)
            .unwrap();
        save(&io, Path::new(DIR), &graph, &ids).unwrap();
        let file = io.open(&Path::new(DIR).join(Kind::STATIC.name), OpenMode::READ).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    assert!(saved(0) == saved(100_000));
}

#[test]
fn a_crash_leaves_the_old_graph_or_the_new_one() {
    let mut all = sized(2000);
    let (new, old) = (all.remove(2), all.remove(0));
    let io = SimIo::new(3);
    save(&io, Path::new(DIR), &old.0, &old.1).unwrap();
    let first = io.event_count();
    save(&io, Path::new(DIR), &new.0, &new.1).unwrap();
    let last = io.event_count();
    let (old, new) = (told(&old.0, &old.1), told(&new.0, &new.1));
    let mut points = io.crash_points();
    let mut found = [0; 3];
    loop {
        let random = points.cut() as u64 * 3;
        let crashes = [Crash::Kill, Crash::Nothing, Crash::Everything];
        for crash in crashes.into_iter().chain((0..3).map(|n| Crash::Random(random + n))) {
            let image = points.image(crash);
            let what = format!("cut {} ({}), {crash:?}", points.cut(), points.label());
            match open(&image, Path::new(DIR)) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{what}: {error}");
                    assert!(points.cut() < first, "{what}: an acknowledged graph is gone");
                    found[0] += 1;
                }
                Ok((graph, ids)) => {
                    let told = told(&graph, &ids);
                    let is_new = told == new;
                    assert!(is_new || told == old, "{what}: neither graph");
                    assert!(is_new || points.cut() < last, "{what}: an acknowledged graph is gone");
                    found[1 + usize::from(is_new)] += 1;
                }
            }
            // Whatever a crash left, the next one can be saved.
            let (graph, ids) = sized(10).pop().unwrap();
            save(&image, Path::new(DIR), &graph, &ids).unwrap();
            assert_eq!(open(&image, Path::new(DIR)).unwrap().0.vertices(), 5);
        }
        if !points.advance() {
            break;
        }
    }
    assert!(found.iter().all(|times| *times > 0), "nothing, old and new were each found: {found:?}");
}

#[test]
fn a_full_or_failing_disk_leaves_the_graph_that_was_there() {
    let old = sized(10).remove(2);
    let new = sized(2000).remove(0);
    let clean = SimIo::new(5);
    save(&clean, Path::new(DIR), &old.0, &old.1).unwrap();
    let first = clean.event_count();
    save(&clean, Path::new(DIR), &new.0, &new.1).unwrap();
    for event in first..clean.event_count() {
        for kind in [FaultKind::Enospc, FaultKind::Eio, FaultKind::Short(100)] {
            let io = SimIo::new(5);
            save(&io, Path::new(DIR), &old.0, &old.1).unwrap();
            io.inject(Fault::at(event, kind));
            let failed = save(&io, Path::new(DIR), &new.0, &new.1);
            let (graph, ids) = open(&io, Path::new(DIR)).unwrap();
            let label = &clean.labels()[event];
            match failed {
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Full | ErrorKind::Io), "{error}");
                    let is_renamed = label.starts_with("sync_dir");
                    assert!(is_renamed || told(&graph, &ids) == told(&old.0, &old.1), "{label}: {kind:?}");
                }
                Ok(()) => panic!("{label}: {kind:?} went unnoticed"),
            }
            save(&io, Path::new(DIR), &new.0, &new.1).unwrap();
        }
    }
}

#[test]
fn damage_is_named_and_never_read_as_a_graph() {
    let (graph, ids) = sized(10).remove(2);
    let path = Path::new(DIR).join(Kind::STATIC.name);
    let whole = told(&graph, &ids);
    let io = SimIo::new(7);
    save(&io, Path::new(DIR), &graph, &ids).unwrap();
    let length = io.open(&path, OpenMode::READ).unwrap().len().unwrap();
    let mut noticed = 0;
    // The header's ends, and the beginning of every section.
    let ends = (0..80).chain(HEADER_BYTES as u64 - 8..HEADER_BYTES as u64);
    let sections = (HEADER_BYTES as u64..length).step_by(HEADER_BYTES).flat_map(|begin| begin..begin + 40);
    for offset in ends.chain(sections) {
        io.flip_bit(&path, offset, (offset % 8) as u8).unwrap();
        match open(&io, Path::new(DIR)) {
            Ok((graph, ids)) => assert!(told(&graph, &ids) == whole, "a flipped bit at {offset} changed the graph"),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported), "{offset}: {error}");
                noticed += 1;
            }
        }
        io.flip_bit(&path, offset, (offset % 8) as u8).unwrap();
    }
    // 80 bytes and the checksum of the header; 3 ids, and 4 offsets and 4 targets in each direction.
    assert!(noticed >= 84 + 3 * 8 + 2 * (4 * 8 + 4 * 4), "{noticed}");
    for shorter in [0, 1, 100, 4095, 4096, length - 4096, length - 1] {
        let io = SimIo::new(7);
        save(&io, Path::new(DIR), &graph, &ids).unwrap();
        io.open(&path, OpenMode::WRITE).unwrap().set_len(shorter).unwrap();
        assert_eq!(open(&io, Path::new(DIR)).unwrap_err().kind(), ErrorKind::Corruption, "{shorter} bytes");
    }
}

/// Put `change` into the header and seal it again.
fn forged(change: impl Fn(&mut [u8])) -> Error {
    let (graph, ids) = sized(10).remove(2);
    let io = SimIo::new(9);
    save(&io, Path::new(DIR), &graph, &ids).unwrap();
    let file = io.open(&Path::new(DIR).join(Kind::STATIC.name), OpenMode::WRITE).unwrap();
    let mut bytes = vec![0; HEADER_BYTES];
    file.read_at(&mut bytes, 0).unwrap();
    change(&mut bytes);
    let checksum = crc32c(&bytes[..HEADER_BYTES - 4]);
    put_u32(&mut bytes, HEADER_BYTES - 4, checksum);
    file.write_at(&bytes, 0).unwrap();
    open(&io, Path::new(DIR)).unwrap_err()
}

#[test]
fn a_newer_version_and_forged_counts_are_refused() {
    let newer = forged(|header| put_u32(header, 8, VERSION + 1));
    assert_eq!(newer.kind(), ErrorKind::Unsupported);
    assert!(newer.to_string().contains("has version 2"), "{newer}");
    for (at, value) in [(16, u64::MAX), (24, u64::MAX), (16, 4), (24, 2), (16, 0)] {
        let error = forged(|header| put_u64(header, at, value));
        assert_eq!(error.kind(), ErrorKind::Corruption, "{at} {value}: {error}");
    }
    assert_eq!(forged(|header| put_u32(header, 12, 7)).kind(), ErrorKind::Corruption);
}

/// A section put in the place of another one, with the checksum that belongs to it.
fn with_section<T: Stored>(section: usize, items: &[T]) -> Result<()> {
    let (graph, ids) = sized(10).remove(2);
    let io = SimIo::new(9);
    save(&io, Path::new(DIR), &graph, &ids)?;
    let path = Path::new(DIR).join(Kind::STATIC.name);
    let mut file = io.open(&path, OpenMode::WRITE).unwrap();
    let mut bytes = vec![0; HEADER_BYTES];
    file.read_at(&mut bytes, 0).unwrap();
    let mut header = Header::decode(&Kind::STATIC, &path, &bytes)?;
    header.checksums[section] = put(&mut file, header.offset(section), items.iter().copied()).unwrap();
    file.write_at(&header.encode(&Kind::STATIC), 0).unwrap();
    open(&io, Path::new(DIR)).map(drop)
}

#[test]
fn lists_that_contradict_themselves_are_refused_though_their_checksums_fit() {
    with_section(2, &[1u32, 2, 2, 2]).unwrap();
    with_section(1, &[0u64, 2, 3, 4]).unwrap();
    for offsets in [[0u64, 3, 2, 4], [1, 1, 2, 4], [0, 1, 2, 2], [0, 9, 9, 4]] {
        assert_eq!(with_section(1, &offsets).unwrap_err().kind(), ErrorKind::Corruption, "{offsets:?}");
    }
    for targets in [[1u32, 1, 2, 2], [2, 1, 2, 2], [1, 2, 2, 3]] {
        assert_eq!(with_section(2, &targets).unwrap_err().kind(), ErrorKind::Corruption, "{targets:?}");
    }
    assert_eq!(with_section(0, &[7u64, 7, 8]).unwrap_err().kind(), ErrorKind::Corruption);
}
