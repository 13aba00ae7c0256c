//! What only the engine with a server of its own can get wrong: that server's life and death, its leftovers, and servers of others.
#![cfg(feature = "postgres")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use biombo_engine::conformance::{self, Subject};
use biombo_engine::{Durability, Engine, EngineKind, ErrorKind, Op, OpenOptions, Registry};
use tempfile::TempDir;

const CHILD: &str = "BIOMBO_POSTGRES_CHILD";

/// `None`, said, where PostgreSQL is not installed.
fn kind() -> Option<EngineKind> {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    let kind = registry.get("postgres").expect("the feature is on").clone();
    if !kind.is_installed() {
        println!("skipped: PostgreSQL is not installed");
        return None;
    }
    Some(kind)
}

/// A temporary directory with an empty one in it.
fn home() -> (TempDir, PathBuf) {
    let home = TempDir::with_prefix("biombo-postgres-test-").expect("a temporary directory");
    let dir = home.path().join("instance");
    fs::create_dir(&dir).expect("a directory");
    (home, dir)
}

fn open(kind: &EngineKind, dir: &Path) -> Arc<dyn Engine> {
    (kind.open)(&OpenOptions { cache_bytes: 16 << 20, ..OpenOptions::new(dir) }).unwrap_or_else(|e| panic!("open: {e}"))
}

fn put(engine: &Arc<dyn Engine>, key: &[u8], durability: Durability) {
    engine.apply(&[Op::Put { key, value: b"value" }], durability).expect("put");
}

/// The lines of the cluster's lock file: the server's process first, the directory of its socket fifth.
fn lock_file(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join("cluster/postmaster.pid")).expect("a server runs");
    text.lines().map(|line| line.trim().to_owned()).collect()
}

fn signal(name: &str, process: &str) {
    let sent = Command::new("kill").args(["-s", name, process]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill {name} {process}");
}

fn lives(process: &str) -> bool {
    // One that ended and was not waited for has no command line.
    fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|text| !text.is_empty())
}

fn within_a_minute(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "after a minute not yet: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_closed_instance_leaves_no_process_and_no_socket() {
    let Some(kind) = kind() else { return };
    let (_home, dir) = home();
    let engine = open(&kind, &dir);
    put(&engine, b"k", Durability::Os);
    let lines = lock_file(&dir);
    let (server, sockets) = (lines[0].clone(), PathBuf::from(&lines[4]));
    assert!(lives(&server) && sockets.is_dir());
    drop(engine);
    assert!(!lives(&server) && !sockets.exists());
    assert!(!dir.join("cluster/postmaster.pid").exists(), "it was not stopped cleanly");
}

#[test]
fn a_server_that_dies_says_why_and_costs_nothing_that_was_synced() {
    let Some(kind) = kind() else { return };
    let (_home, dir) = home();
    let engine = open(&kind, &dir);
    put(&engine, b"synced", Durability::Sync);
    let server = lock_file(&dir)[0].clone();
    signal("KILL", &server);
    within_a_minute("the server is gone", || !lives(&server));
    // A session of it may answer once more before it sees that.
    within_a_minute("the sessions are gone", || engine.get(b"synced").is_err());
    for _ in 0..2 {
        let read = engine.get(b"synced").expect_err("there is no server");
        assert_eq!(read.kind(), ErrorKind::Poisoned);
        assert!(read.to_string().contains("the PostgreSQL server ended"), "{read}");
        let write =
            engine.apply(&[Op::Put { key: b"k", value: b"v" }], Durability::Os).expect_err("there is no server");
        assert_eq!(write.kind(), ErrorKind::Poisoned);
    }
    drop(engine);
    let engine = open(&kind, &dir);
    assert!(engine.contains(b"synced").expect("read"));
    put(&engine, b"later", Durability::Sync);
}

#[test]
fn a_server_that_ends_one_of_its_processes_ends_whole() {
    let Some(kind) = kind() else { return };
    let (_home, dir) = home();
    let engine = open(&kind, &dir);
    put(&engine, b"k", Durability::Sync);
    // The first one below the server that is a session: killed, the server cannot trust its shared memory any more.
    let server = lock_file(&dir)[0].clone();
    let children = Command::new("ps").args(["-o", "pid=,args=", "--ppid", &server]).output().expect("ps");
    let children = String::from_utf8_lossy(&children.stdout).into_owned();
    let session = children.lines().find(|line| line.contains("idle")).expect("the idle connection's process");
    signal("KILL", session.split_whitespace().next().expect("a number"));
    within_a_minute("the server is gone", || !lives(&server));
    let error = engine.get(b"k").expect_err("there is no server");
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
}

#[test]
fn a_sync_that_changes_nothing_makes_what_stands_before_it_durable() {
    let Some(kind) = kind() else { return };
    let (_home, dir) = home();
    let engine = open(&kind, &dir);
    let address = format!("host={} user=biombo dbname=postgres", lock_file(&dir)[4]);
    let mut client =
        address.parse::<postgres::Config>().and_then(|config| config.connect(postgres::NoTls)).expect("connect");
    // Nobody else flushes the log meanwhile: its writer would, of itself, every 200 ms.
    client.batch_execute("ALTER SYSTEM SET wal_writer_delay = '10s'").expect("set");
    client.batch_execute("SELECT pg_reload_conf()").expect("reload");
    let mut position = |of: &str| {
        let row = client.query_one(&format!("SELECT (pg_current_wal_{of}_lsn() - '0/0')::text"), &[]).expect("ask");
        row.get::<_, String>(0).parse::<u64>().expect("a position")
    };
    let absent = Op::Delete { key: b"absent" };
    let empty = Op::DeleteRange { from: b"x", to: Some(b"y") };
    let cases: [&[Op<'_>]; 5] =
        [&[], &[absent], &[empty], &[absent, empty], &[Op::DeleteRange { from: b"x", to: None }]];
    let (begun, mut waited) = (Instant::now(), 0);
    for (i, case) in cases.iter().cycle().enumerate() {
        // On a busy machine somebody may be faster each time than who asks.
        if i >= cases.len() && (waited > 0 || begun.elapsed() > Duration::from_secs(60)) {
            break;
        }
        put(&engine, format!("k{i}").as_bytes(), Durability::Os);
        let put_at = position("insert");
        waited += u32::from(position("flush") < put_at);
        engine.apply(case, Durability::Sync).expect("change nothing");
        assert!(position("flush") >= put_at, "case {i}: an acknowledged sync left what was put before it in memory");
    }
    assert!(waited > 0, "the log was flushed each time before anybody asked: this shows nothing");
}

#[test]
fn a_batch_of_several_statements_is_seen_whole_or_not_at_all() {
    let Some(kind) = kind() else { return };
    let (_home, dir) = home();
    let engine = open(&kind, &dir);
    // One of the two is there at any moment: a statement takes it away, another one puts it.
    put(&engine, b"left", Durability::Os);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..1_000 {
                let (from, to): (&[u8], &[u8]) = if i % 2 == 0 { (b"left", b"right") } else { (b"right", b"left") };
                let swap = [
                    Op::DeleteRange { from, to: Some(&[from, b"\0"].concat()) },
                    Op::Put { key: to, value: b"here" },
                    Op::Delete { key: b"never there" },
                ];
                engine.apply(&swap, Durability::Os).expect("swap");
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            let snapshot = Arc::clone(&engine).snapshot().expect("a snapshot");
            let there = |key: &[u8]| snapshot.get(key).expect("read").is_some();
            assert!(there(b"left") != there(b"right"), "a snapshot shows half of a batch");
        }
    });
}

/// The directory of an instance on a small file system of its own; `None` where mounting is not allowed.
struct Mount(PathBuf);

impl Mount {
    fn tmpfs(dir: &Path, options: &str) -> Option<Self> {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir).output().ok()?;
        mount.status.success().then(|| Self(dir.to_owned()))
    }

    fn grow(&self, size: &str) {
        let remount = Command::new("mount").args(["-o", &format!("remount,{size}")]).arg(&self.0).output();
        assert!(remount.is_ok_and(|output| output.status.success()), "remount");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
fn a_full_disk_is_named_and_keeps_what_was_acknowledged() {
    let Some(kind) = kind() else { return };
    let (home, dir) = home();
    let Some(mount) = Mount::tmpfs(&dir, "size=20m,mode=755") else {
        println!("skipped: mounting needs root");
        return;
    };
    let refused = (kind.open)(&OpenOptions::new(&dir)).err().expect("a cluster has 40 MB");
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    mount.grow("size=120m");
    let engine = open(&kind, &dir);
    // Whatever it may be compressed by, it stays as long: a random walk of bytes.
    let walk = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 24) as u8)
    };
    let value: Vec<u8> = std::iter::repeat_with(|| ()).scan(7, |state, ()| walk(state)).take(100_000).collect();
    let failed = (0u32..5_000).find_map(|i| {
        let put = engine.apply(&[Op::Put { key: &i.to_be_bytes(), value: &value }], Durability::Sync);
        put.err().map(|error| (i, error))
    });
    let (kept, error) = failed.expect("500 MB do not fit");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(
        error.to_string().contains("No space left on device") && error.to_string().contains("free room"),
        "{error}"
    );
    drop(engine);
    mount.grow("size=800m");
    let engine = open(&kind, &dir);
    assert!(
        kept > 0 && (0..kept).all(|i| engine.contains(&i.to_be_bytes()).expect("read")),
        "{kept} were acknowledged"
    );
    put(&engine, b"again", Durability::Sync);
    drop(engine);
    drop(mount);
    drop(home);
}

#[test]
fn a_directory_that_its_account_cannot_enter_is_named() {
    let Some(kind) = kind() else { return };
    let closed = tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700)).tempdir();
    let closed = closed.expect("a directory that only its owner enters");
    let dir = closed.path().join("instance");
    fs::create_dir(&dir).expect("a directory");
    match (kind.open)(&OpenOptions::new(&dir)) {
        // The owner runs PostgreSQL.
        Ok(_) => {
            assert_ne!(fs::metadata("/proc/self").map(|me| std::os::unix::fs::MetadataExt::uid(&me)).ok(), Some(0))
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains("may not enter"), "{error}");
        }
    }
}

#[test]
fn verify_names_the_file_and_offset_of_a_damaged_page() {
    use std::os::unix::fs::FileExt;
    let Some(kind) = kind() else { return };
    let (_home, dir) = home();
    let engine = open(&kind, &dir);
    for i in 0..2_000u32 {
        engine.apply(&[Op::Put { key: &i.to_be_bytes(), value: &[7; 500] }], Durability::Os).expect("put");
    }
    drop(engine);
    // The largest file of the database is the table.
    let files = fs::read_dir(dir.join("cluster/base/5")).expect("the database").flatten();
    let table = files.max_by_key(|file| file.metadata().map_or(0, |meta| meta.len())).expect("files").path();
    let file = fs::File::options().write(true).open(&table).expect("open the table");
    file.write_all_at(&[0xa5; 100], 8_192 * 30 + 4_000).expect("damage it");
    let engine = open(&kind, &dir);
    let mut damages = Vec::new();
    let keys = engine.verify(&mut |damage| damages.push(damage)).expect("verify");
    assert!(keys < 2_000);
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!((&damages[0].file, damages[0].offset), (&table, 8_192 * 30), "{damages:?}");
}

/// The part of a process that is told of a server by its environment; without it it is no test at all.
#[test]
fn child_of_an_existing_server() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let kind = kind().expect("the parent has it too");
    let subject = Subject::from_kind(&kind).with_budget(Duration::from_millis(300)).without_regressions();
    conformance::check_points_put_overwrite_delete(&subject);
    conformance::check_range_deletes_inside_batches_keep_their_place(&subject);
    conformance::check_cursor_walks_both_ways(&subject);
    conformance::check_snapshot_held_across_writes(&subject);
    conformance::check_reopen_many_times(&subject);
    conformance::check_second_instance_is_refused(&subject);
    conformance::check_stats_are_plausible(&subject);
    conformance::check_verify_counts_the_live_keys(&subject);
    // Two of the lab's, whose run is over: one closed, one killed. The instances before them were somebody's own.
    let run = TempDir::with_prefix(biombo_engine::RUN_DIR_PREFIX).expect("a temporary directory");
    for name in ["closed", "killed"] {
        let dir = run.path().join(name);
        fs::create_dir(&dir).expect("a directory");
        let engine = open(&kind, &dir);
        put(&engine, b"k", Durability::Sync);
        let table = fs::read_to_string(dir.join("ADDRESS")).expect("its table").lines().next().map(str::to_owned);
        if name == "killed" {
            std::mem::forget(engine);
            continue;
        }
        drop(engine);
        let table = table.expect("a name");
        let mut client = std::env::var("BIOMBO_POSTGRES")
            .expect("the parent's server")
            .parse::<postgres::Config>()
            .and_then(|config| config.connect(postgres::NoTls))
            .expect("connect");
        let found = client.query("SELECT 1 FROM pg_class WHERE relname::text = $1", &[&table]).expect("a look");
        assert!(found.is_empty(), "a run that has ended leaves {table}");
    }
    drop(run);
    let (_home, dir) = home();
    let engine = open(&kind, &dir);
    put(&engine, b"k", Durability::Sync);
    assert!(!dir.join("cluster").exists(), "a server of its own");
    let options = engine.stats().expect("stats").options;
    assert!(options.contains(&("server".to_owned(), "existing".to_owned())), "{options:?}");
    assert_eq!(engine.capabilities().survives_power_cut, Some(Durability::Os));
}

#[test]
fn an_existing_server_has_a_table_for_each_instance_and_loses_those_of_runs_that_are_over() {
    let Some(kind) = kind() else { return };
    let (_home, dir) = home();
    // Somebody's server.
    let server = open(&kind, &dir);
    let address = format!("host={} user=biombo dbname=postgres", lock_file(&dir)[4]);
    let done = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child_of_an_existing_server", "--test-threads", "1", "--nocapture"])
        .env(CHILD, "1")
        .env("BIOMBO_POSTGRES", &address)
        .output()
        .expect("run this program");
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    // Every instance of the child had a directory that is gone: whoever came last removed the one of the lab's run, and no other.
    let mut client =
        address.parse::<postgres::Config>().and_then(|config| config.connect(postgres::NoTls)).expect("connect");
    let tables = "SELECT coalesce(obj_description(oid, 'pg_class'), '') FROM pg_class \
                  WHERE relkind = 'r' AND relname ~ '^biombo_[0-9a-f]{16}$'";
    let rows = client.query(tables, &[]).expect("the tables");
    let comments: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert!(comments.iter().all(|comment| !comment.contains(biombo_engine::RUN_DIR_PREFIX)), "{comments:?}");
    assert!(
        comments.len() > 1 && comments.iter().any(|comment| comment.contains("biombo-postgres-test-")),
        "{comments:?}"
    );
    drop(client);
    put(&server, b"k", Durability::Os);
    let refused = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child_of_an_existing_server", "--test-threads", "1", "--nocapture"])
        .env(CHILD, "1")
        .env("BIOMBO_POSTGRES", "host=/nowhere user=me")
        .output()
        .expect("run this program");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned() + &String::from_utf8_lossy(&refused.stdout);
    assert!(!refused.status.success() && words.contains("cannot use the server that BIOMBO_POSTGRES names"), "{words}");
}
