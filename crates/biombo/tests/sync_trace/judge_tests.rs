//! The judge on traces as strace records them, sound ones and ones whose sync is missing, late, failed or elsewhere.

use super::judge::judge;

/// Indented lines become those of thread 7; `{}` becomes the instance's directory.
fn verdict(lines: &str) -> Result<(), String> {
    let trace: Vec<String> = lines
        .lines()
        .map(|line| line.trim().replace("{}", "/t/i"))
        .filter(|line| !line.is_empty())
        .map(|line| if line.starts_with(|c: char| c.is_ascii_digit()) { line } else { format!("7 {line}") })
        .collect();
    let verdicts = judge(&trace.join("\n"), "/t/i")?;
    assert!(!verdicts.is_empty(), "no acknowledgement was seen");
    verdicts.into_iter().try_for_each(|(_, verdict)| verdict.map(drop))
}

const LOG: &str = r#"
    openat(AT_FDCWD</>, "{}/log", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 5<{}/log>
    fsync(4<{}>) = 0
"#;
const BEGIN: &str = r#"write(3</t/markers>, "begin 1\n", 8) = 8
"#;
const DATA: &str = r#"write(5<{}/log>, "\33..needle-00001-..", 40) = 40
"#;
const ACK: &str = r#"
    write(3</t/markers>, "ack 1\n", 6) = 6
"#;

#[test]
fn a_log_synced_before_the_acknowledgement_passes() {
    let trace = [LOG, BEGIN, DATA, "fdatasync(5<{}/log>) = 0", ACK].concat();
    assert_eq!(verdict(&trace), Ok(()));
}

#[test]
fn a_missing_sync_is_found() {
    let found = verdict(&[LOG, BEGIN, DATA, ACK].concat());
    assert!(found.as_ref().is_err_and(|e| e.contains("/t/i/log was written, but not synced")), "{found:?}");
}

#[test]
fn a_late_sync_is_found() {
    let trace = [LOG, BEGIN, DATA, ACK, "fdatasync(5<{}/log>) = 0\n"].concat();
    assert!(verdict(&trace).is_err());
}

#[test]
fn a_sync_before_the_data_is_found() {
    let trace = [LOG, BEGIN, "fdatasync(5<{}/log>) = 0\n", DATA, ACK].concat();
    assert!(verdict(&trace).is_err());
}

#[test]
fn a_sync_that_ends_after_the_acknowledgement_is_found() {
    let unfinished = "8 fdatasync(5<{}/log> <unfinished ...>\n";
    let resumed = "8 <... fdatasync resumed>) = 0\n";
    assert!(verdict(&[LOG, BEGIN, DATA, unfinished, ACK, resumed].concat()).is_err());
    assert_eq!(verdict(&[LOG, BEGIN, DATA, unfinished, resumed, ACK].concat()), Ok(()));
}

#[test]
fn a_sync_that_began_before_the_data_was_written_is_found() {
    let unfinished = "8 fdatasync(5<{}/log> <unfinished ...>\n";
    let resumed = "8 <... fdatasync resumed>) = 0\n";
    assert!(verdict(&[LOG, BEGIN, unfinished, DATA, resumed, ACK].concat()).is_err());
}

#[test]
fn a_failed_sync_and_one_of_another_file_do_not_count() {
    for sync in [
        "fdatasync(5<{}/log>) = -1 EIO (Input/output error)",
        "fdatasync(6<{}/other>) = 0",
        "fsync(4<{}>) = 0",
        "sync_file_range(5<{}/log>, 0, 0, SYNC_FILE_RANGE_WRITE) = 0",
    ] {
        assert!(verdict(&[LOG, BEGIN, DATA, sync, ACK].concat()).is_err(), "{sync}");
    }
}

#[test]
fn a_write_through_a_synchronous_descriptor_is_its_own_sync() {
    for (flags, due) in [("O_RDWR|O_CREAT|O_DSYNC", true), ("O_RDWR|O_CREAT|O_SYNC", true), ("O_RDWR|O_CREAT", false)] {
        let open = format!("openat(AT_FDCWD</>, \"{{}}/log\", {flags}, 0644) = 5<{{}}/log>\nfsync(4<{{}}>) = 0\n");
        assert_eq!(verdict(&[&open, BEGIN, DATA, ACK].concat()).is_ok(), due, "{flags}");
    }
}

#[test]
fn the_meta_page_counts_as_its_data_does() {
    // As LMDB commits: pages, sync, then the meta page through a descriptor that syncs (or not).
    let open = r#"
        openat(AT_FDCWD</>, "{}/data.mdb", O_RDWR|O_CREAT|O_CLOEXEC, 0664) = 5<{}/data.mdb>
        openat(AT_FDCWD</>, "{}/data.mdb", O_WRONLY|O_DSYNC|O_CLOEXEC, 0664) = 6<{}/data.mdb>
        fsync(4<{}>) = 0
    "#;
    let pages = r#"
        pwritev(5<{}/data.mdb>, [{iov_base="\2..needle-00001-..", iov_len=4096}, {iov_base="\4", iov_len=4096}], 2, 8192) = 8192
        fdatasync(5<{}/data.mdb>) = 0
    "#;
    for (fd, due) in [(6, true), (5, false)] {
        let meta = format!("pwrite64({fd}<{{}}/data.mdb>, \"\\2\\0\\0\", 72, 24) = 72");
        assert_eq!(verdict(&[open, BEGIN, pages, &meta, ACK].concat()).is_ok(), due, "meta page through {fd}");
    }
}

#[test]
fn a_mapping_is_synced_by_msync_of_its_addresses() {
    let open = r#"
        openat(AT_FDCWD</>, "{}/db.tkh", O_RDWR|O_CREAT, 0644) = 5<{}/db.tkh>
        mmap(NULL, 1048576, PROT_READ|PROT_WRITE, MAP_SHARED, 5<{}/db.tkh>, 0) = 0x7f0000000000
        mremap(0x7f0000000000, 1048576, 2097152, MREMAP_MAYMOVE) = 0x7e0000000000
        fsync(4<{}>) = 0
    "#;
    for (sync, due) in [
        ("msync(0x7e0000000000, 4096, MS_SYNC) = 0", true),
        ("msync(0x7e0000100000, 4096, MS_SYNC) = 0", true),
        ("msync(0x7e0000000000, 4096, MS_ASYNC) = 0", false),
        ("msync(0x7f0000000000, 4096, MS_SYNC) = 0", false),
        ("fsync(5<{}/db.tkh>) = 0", true),
        ("", false),
    ] {
        assert_eq!(verdict(&[open, BEGIN, sync, ACK].concat()).is_ok(), due, "{sync}");
    }
}

#[test]
fn zeros_that_are_filled_in_after_a_sync_are_no_data_and_anything_else_is() {
    let map = r#"
        openat(AT_FDCWD</>, "{}/1.seg", O_RDWR) = 5<{}/1.seg>
        mmap(NULL, 1048576, PROT_READ|PROT_WRITE, MAP_SHARED, 5<{}/1.seg>, 0) = 0x7f0000000000
    "#;
    let sync = "fdatasync(5<{}/1.seg>) = 0\n";
    let filled = |bytes: &str| format!("8 pwrite64(5<{{}}/1.seg>, \"{bytes}\", 4, 65536) = 4\n");
    assert_eq!(verdict(&[map, BEGIN, sync, &filled(r"\0\0\0\0"), ACK].concat()), Ok(()));
    for data in [r"\0\0\0\1", r"\0a\0\0", "0000", r"\\0\\0"] {
        assert!(verdict(&[map, BEGIN, sync, &filled(data), ACK].concat()).is_err(), "{data}");
    }
}

#[test]
fn zeros_with_more_behind_them_that_is_not_shown_are_no_room_and_no_trace_to_judge() {
    let cut = r#"8 pwrite64(5<{}/log>, "\0\0\0\0"..., 262144, 65536) = 262144
"#;
    let trace = [LOG, BEGIN, DATA, "fdatasync(5<{}/log>) = 0\n", cut, ACK].concat();
    let found = verdict(&trace);
    assert!(found.as_ref().is_err_and(|why| why.contains("not all of what was written is shown")), "{found:?}");
}

#[test]
fn a_mapped_file_is_synced_by_the_name_that_it_got_later() {
    let open = r#"
        openat(AT_FDCWD</>, "{}/1.new", O_RDWR|O_CREAT, 0644) = 5<{}/1.new>
        mmap(NULL, 1048576, PROT_READ|PROT_WRITE, MAP_SHARED, 5<{}/1.new>, 0) = 0x7f0000000000
        rename("{}/1.new", "{}/1.seg") = 0
    "#;
    let named = "fsync(4<{}>) = 0\n";
    for (sync, due) in [
        ("fdatasync(5<{}/1.seg>) = 0", true),
        ("msync(0x7f0000000000, 4096, MS_SYNC) = 0", true),
        ("fdatasync(6<{}/2.seg>) = 0", false),
        ("", false),
    ] {
        assert_eq!(verdict(&[open, named, BEGIN, sync, ACK].concat()).is_ok(), due, "{sync}");
        assert!(verdict(&[open, BEGIN, sync, ACK].concat()).is_err(), "its directory was not synced: {sync}");
    }
}

#[test]
fn a_new_file_needs_its_directory_synced() {
    let log = r#"openat(AT_FDCWD</>, "{}/log", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 5<{}/log>
"#;
    let found = verdict(&[log, BEGIN, DATA, "fdatasync(5<{}/log>) = 0", ACK].concat());
    assert!(found.as_ref().is_err_and(|e| e.contains("its directory not synced")), "{found:?}");
    let renamed = "rename(\"{}/tmp\", \"{}/log\") = 0\n";
    assert!(verdict(&[LOG, renamed, BEGIN, DATA, "fdatasync(5<{}/log>) = 0", ACK].concat()).is_err());
}

#[test]
fn overlapping_writes_answer_for_their_own_data_only() {
    let second = r#"
        8 write(3</t/markers>, "begin 2\n", 8) = 8
        8 write(5<{}/log>, "..needle-00002-..", 40) = 40
    "#;
    let second_ack = "8 write(3</t/markers>, \"ack 2\\n\", 6) = 6\n";
    let sync = "fdatasync(5<{}/log>) = 0\n";
    // The second one's data comes after the sync of the first: only the second is early, or it syncs again.
    assert_eq!(verdict(&[LOG, BEGIN, DATA, sync, second, ACK, sync, second_ack].concat()), Ok(()));
    assert!(verdict(&[LOG, BEGIN, DATA, sync, second, ACK, second_ack].concat()).is_err());
}

#[test]
fn older_data_copied_by_a_later_write_is_not_waited_for() {
    // The next commit of a copy-on-write tree writes the neighbours of its key again.
    let second = r#"
        8 write(3</t/markers>, "begin 2\n", 8) = 8
        8 write(5<{}/log>, "..needle-00001-..needle-00002-..", 80) = 80
    "#;
    let sync = "fdatasync(5<{}/log>) = 0\n";
    let second_ack = "8 write(3</t/markers>, \"ack 2\\n\", 6) = 6\n";
    assert_eq!(verdict(&[LOG, BEGIN, DATA, sync, second, ACK, sync, second_ack].concat()), Ok(()));
}

#[test]
fn data_that_another_thread_copies_to_a_new_file_is_durable_where_it_was_written() {
    let copied = r#"
        8 openat(AT_FDCWD</>, "{}/2.table", O_WRONLY|O_CREAT, 0644) = 6<{}/2.table>
        8 write(6<{}/2.table>, "..needle-00001-....needle-00002-..", 40) = 40
        8 fdatasync(6<{}/2.table>) = 0
    "#;
    let second = "8 write(3</t/markers>, \"begin 2\\n\", 8) = 8\n";
    let second_ack = "\n8 write(3</t/markers>, \"ack 2\\n\", 6) = 6\n";
    let (sync, named) = ("fdatasync(5<{}/log>) = 0\n", "8 fsync(4<{}>) = 0\n");
    assert_eq!(verdict(&[LOG, BEGIN, DATA, sync, second, copied, ACK, named, second_ack].concat()), Ok(()));
    // Neither where the copy is all that is synced and has no durable name, nor alone.
    assert!(verdict(&[LOG, BEGIN, DATA, second, copied, ACK, named, second_ack].concat()).is_err());
    assert!(verdict(&[LOG, BEGIN, DATA, sync, copied, ACK].concat()).is_err());
}

#[test]
fn asynchronous_writes_are_not_guessed_at() {
    assert!(verdict(&[LOG, BEGIN, DATA, "io_uring_enter(9, 1, 1, 0, NULL, 8) = 1", ACK].concat()).is_err());
}
