//! An existing server: an instance there is a table, and its directory has the address and the table's name.
//!
//! 1. `BIOMBO_POSTGRES` has the address when an instance is created (`host=/run/postgresql user=me`, `postgresql://me@host/database`: as
//!    PostgreSQL's own programs take it); from then on the directory's own file has it.
//! 2. The file is written before the table is created, and the marker after that: a creation that was cut begins again.
//! 3. The comment of a table names its machine and directory. A run of the lab removes its tables when it closes them, and whoever creates an
//!    instance on the same server removes those of runs on this machine that were killed: whose directories are gone. Other tables stay,
//!    whatever became of their directories: a device that is not mounted looks the same.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use biombo_base::{Error, Result};
use biombo_engine::RUN_DIR_PREFIX;
use postgres::{Config, NoTls};

use super::errors::one_line;
use super::settings::SESSION;
use crate::home;

/// Where the address stands in the environment, and in an instance's directory.
const VARIABLE: &str = "BIOMBO_POSTGRES";
const FILE: &str = "ADDRESS";
/// What the names of tables begin with; 16 hexadecimal digits follow.
const PREFIX: &str = "biombo_";

/// Whether an existing server is named for instances that are created.
pub(super) fn is_named() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|address| !address.is_empty())
}

/// A table on an existing server.
pub(super) struct Remote {
    pub(super) config: Config,
    pub(super) table: String,
}

impl Remote {
    /// What the instance in `dir` is to use; `None`: a server of its own.
    pub(super) fn of(dir: &Path, is_new: bool) -> Result<Option<Self>> {
        let file = dir.join(FILE);
        let text = match fs::read_to_string(&file) {
            Ok(text) => Some(text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::io(format_args!("read {}", file.display()), e)),
        };
        let is_there = text.is_some();
        let known =
            text.as_deref().and_then(|text| text.trim_end().split_once('\n').filter(|(table, _)| is_ours(table)));
        let wanted = std::env::var(VARIABLE).ok().filter(|address| is_new && !address.is_empty());
        match (wanted, known) {
            (Some(address), cut) => {
                let config = config(&address, VARIABLE)?;
                sweep(&config).map_err(|e| {
                    Error::invalid(format!("cannot use the server that {VARIABLE} names: {}", one_line(&e.to_string())))
                })?;
                let table = match cut {
                    Some((table, _)) => table.to_owned(),
                    None => format!("{PREFIX}{:016x}", random()?),
                };
                write(&file, &format!("{table}\n{address}\n"))
                    .map_err(|e| Error::io(format_args!("write {}", file.display()), e))?;
                home::sync_file(&file)?;
                home::sync_dir(dir)?;
                Ok(Some(Self { config, table }))
            }
            (None, Some((table, address))) if !is_new => {
                Ok(Some(Self { config: config(address, &file.display().to_string())?, table: table.to_owned() }))
            }
            (None, _) if is_new => {
                // A creation on an existing server was cut, and this one makes a server of its own.
                match fs::remove_file(&file) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                        Err(Error::io(format_args!("remove {}", file.display()), e))
                    }
                    _ => Ok(None),
                }
            }
            (None, _) if is_there => {
                Err(Error::corruption(file, 0, "it has no table and address; restore the directory from a copy"))
            }
            (None, _) => Ok(None),
        }
    }
}

fn config(address: &str, place: &str) -> Result<Config> {
    let parsed = address.parse::<Config>();
    let mut config = parsed.map_err(|e| {
        Error::invalid(format!(
            "{place} has no address of a PostgreSQL server, such as `host=/run/postgresql user=me dbname=lab`: {}",
            one_line(&e.to_string())
        ))
    })?;
    let options = config.get_options().map_or(SESSION.to_owned(), |theirs| format!("{theirs} {SESSION}"));
    config.options(&options).application_name("biombo");
    Ok(config)
}

/// Names go into statements as they are: they must be such as this makes.
fn is_ours(table: &str) -> bool {
    let digits = table.strip_prefix(PREFIX).unwrap_or("");
    digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What a table of the instance in `dir` says of itself.
pub(super) fn comment(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    format!("{}:{}", machine(), dir.display())
}

/// The machine's name, and its number where it has one: names are often those of an image.
fn machine() -> String {
    let line = |file: &str| fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    [line("/proc/sys/kernel/hostname"), line("/etc/machine-id")].join(" ").trim().to_owned()
}

/// The directory of the run of the lab that `dir` belongs to, if it does.
fn run_of(dir: &Path) -> Option<&Path> {
    let is_run = |dir: &&Path| dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(RUN_DIR_PREFIX));
    dir.ancestors().find(is_run)
}

/// Whether `dir` is that of a run of the lab: nobody opens it once more.
pub(super) fn is_of_run(dir: &Path) -> bool {
    run_of(dir).is_some()
}

/// Whether `dir` was that of a run of the lab which is over: its run's directory is gone from where that was made, which is still there.
fn is_over(dir: &Path) -> bool {
    run_of(dir).is_some_and(|run| !run.exists() && run.parent().is_some_and(Path::exists))
}

/// Remove the tables of the lab's runs on this machine that are over.
fn sweep(config: &Config) -> Result<(), postgres::Error> {
    let mut client = config.connect(NoTls)?;
    let rows = client.query(
        "SELECT relname::text, obj_description(oid, 'pg_class') FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid) \
         AND starts_with(relname::text, $1) AND pg_get_userbyid(relowner) = current_user",
        &[&PREFIX],
    )?;
    let here = format!("{}:", machine());
    for row in rows {
        let (table, comment): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        let comment = comment.unwrap_or_default();
        let over = comment.strip_prefix(&here).is_some_and(|dir| is_over(Path::new(dir)));
        if over && is_ours(&table) {
            // Another that sweeps too may have been faster.
            client.batch_execute(&format!("DROP TABLE IF EXISTS {table}"))?;
        }
    }
    Ok(())
}

/// The address may hold a password: the file is its owner's alone.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
    file.write_all(text.as_bytes())
}

fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    let source = "/dev/urandom";
    fs::File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|e| Error::io(format_args!("read {source}"), e))?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_making_go_into_statements() {
        assert!(is_ours("biombo_0123456789abcdef"));
        for other in ["biombo_", "biombo_0123456789abcdeF", "biombo_0123456789abcde;", "kv", "x_0123456789abcdef"] {
            assert!(!is_ours(other), "{other}");
        }
    }

    #[test]
    fn only_runs_of_the_lab_are_over_and_only_where_their_place_is_still_there() {
        let base = tempfile::tempdir().unwrap();
        let of = |run: &str| base.path().join(run).join("store/p0");
        assert!(is_over(&of("biombo-bench-7-0")));
        assert!(!is_over(&of("somebody's")), "gone, or not mounted: nobody knows");
        fs::create_dir(base.path().join("biombo-bench-7-1")).unwrap();
        assert!(!is_over(&of("biombo-bench-7-1")), "the run goes on");
        assert!(!is_over(&of("elsewhere/biombo-bench-7-2")), "the place of the run is not to be seen");
    }

    #[test]
    fn a_file_without_a_table_is_damage_and_one_of_a_cut_creation_goes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        assert!(Remote::of(dir.path(), false).unwrap().is_none());
        fs::write(&file, "biombo_0123456789abcdef\nhost=/tmp user=me\n").unwrap();
        let known = Remote::of(dir.path(), false).unwrap().unwrap();
        assert_eq!((known.table.as_str(), known.config.get_user()), ("biombo_0123456789abcdef", Some("me")));
        assert!(Remote::of(dir.path(), true).unwrap().is_none() && !file.exists());
        for text in ["", "kv\nhost=/tmp user=me\n", "biombo_0123456789abcdef\n"] {
            fs::write(&file, text).unwrap();
            let error = Remote::of(dir.path(), false).err().unwrap();
            assert_eq!(error.kind(), biombo_base::ErrorKind::Corruption, "{text:?}");
        }
    }

    #[test]
    fn an_address_keeps_its_own_options_and_nonsense_is_named() {
        let kept = config("host=/tmp user=me options='-c work_mem=1MB'", "here").unwrap();
        assert!(kept.get_options().is_some_and(|options| options.starts_with("-c work_mem=1MB -c enable_seqscan")));
        let error = config("no address", "BIOMBO_POSTGRES").err().unwrap();
        assert!(error.to_string().contains("BIOMBO_POSTGRES"), "{error}");
    }
}
