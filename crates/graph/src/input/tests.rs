use std::io::Write;

use super::*;

fn items(bytes: &[u8]) -> Result<Vec<Item>> {
    let mut reader = EdgeReader::new(Box::new(std::io::Cursor::new(bytes.to_vec())), "x.txt")?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    Ok(items)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_file_of_snap_is_read_as_downloaded() {
    let text = b"# Directed graph (each unordered pair of nodes is saved once): Wiki-Vote.txt \n\
        # Wikipedia voting on promotion to administratorship\n# Nodes: 3 Edges: 2\n\
        # FromNodeId\tToNodeId\r\n30\t1412\r\n30\t3352\r\n";
    for bytes in [text.to_vec(), gzip(text)] {
        assert_eq!(items(&bytes).unwrap(), [Item::Edge(30, 1412), Item::Edge(30, 3352)]);
    }
}

#[test]
fn the_last_line_needs_no_end_and_an_empty_file_has_no_edges() {
    assert_eq!(items(b"1 2\n3 4").unwrap(), [Item::Edge(1, 2), Item::Edge(3, 4)]);
    assert_eq!(items(b"").unwrap(), []);
    assert_eq!(items(b"\n\n# nothing\n").unwrap(), []);
}

#[test]
fn lines_that_straddle_reads_stay_whole() {
    let mut text = Vec::new();
    let edge = |n: u64| (n * 7_919 % 100_003, n * 104_729);
    let count = 300_000;
    for n in 0..count {
        let (source, destination) = edge(n);
        writeln!(text, "{source}\t{destination}").unwrap();
    }
    assert!(text.len() > 3 * BUFFER_BYTES, "the text has several buffers");
    let expected: Vec<Item> = (0..count).map(|n| Item::Edge(edge(n).0, edge(n).1)).collect();
    assert!(items(&text).unwrap() == expected);
}

#[test]
fn a_broken_line_is_named_by_its_number() {
    let error = items(b"# x\n1 2\n\n3 -4\n").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "x.txt, line 4: the id -4 is negative; ids are whole numbers from 0");
    let error = items(&vec![b'1'; BUFFER_BYTES + 1]).unwrap_err();
    assert!(error.to_string().starts_with("x.txt, line 1: it is longer than"), "{error}");
}

#[test]
fn compressed_data_that_is_cut_off_is_damage() {
    let text: Vec<u8> = (0..100_000).flat_map(|n: u64| format!("{n} {}\n", n * n).into_bytes()).collect();
    let whole = gzip(&text);
    let error = items(&whole[..whole.len() / 2]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("x.txt ends in the middle of its compressed data (after line "), "{error}");
}

#[test]
fn matrix_market_names_its_vertices_and_is_found_by_its_banner() {
    let text = b"%%MatrixMarket matrix coordinate pattern symmetric\n% c\n4 4 2\n2 1\n4 4\n";
    let expected = [Item::Vertices { first: 1, last: 4 }, Item::Edge(2, 1), Item::Edge(4, 4)];
    assert_eq!(items(text).unwrap(), expected);
    let error = items(&text[..text.len() - 4]).unwrap_err();
    assert!(error.to_string().contains("after 1 of 2 entries"), "{error}");
    assert_eq!(items(b"%%MatrixMarket matrix coordinate pattern general\n0 0 0\n").unwrap(), []);
}

#[test]
fn what_is_said_about_direction_is_kept() {
    for (text, directed) in [
        ("# Directed graph: a\n1 2\n", Some(true)),
        ("# Undirected graph: a\n1 2\n", Some(false)),
        ("# graph\n1 2\n", None),
        ("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n", Some(true)),
        ("%%MatrixMarket matrix coordinate real symmetric\n1 1 1\n1 1 1\n", Some(false)),
    ] {
        let mut reader = EdgeReader::new(Box::new(text.as_bytes()), "x").unwrap();
        while reader.next_item().unwrap().is_some() {}
        assert_eq!(reader.is_directed(), directed, "{text}");
    }
}

#[test]
fn what_is_no_file_is_an_error() {
    let missing = EdgeReader::open(Path::new("no such file.el")).err().expect("an error");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let directory = EdgeReader::open(&std::env::temp_dir()).err().expect("an error");
    assert_eq!(directory.kind(), ErrorKind::Invalid);
}
