//! Reading everything: every row by the index, every page with its checksum.

use std::path::Path;

use biombo_base::Result;
use biombo_engine::Damage;
use postgres::Row;

use super::Postgres;
use super::cluster::DATA;
use super::cursor::bytes;
use super::errors::{is_damage, one_line};
use super::pool::{Sql, Taken};

const PAGE_BYTES: u64 = 8 << 10;
/// Pages of one file; a larger table has further ones, with `.1` and so on behind the name.
const FILE_PAGES: u64 = 131_072;
/// Rows that are asked for at once.
const ROWS: usize = 256;

/// See [`Engine::verify`](biombo_engine::Engine::verify). The server stops at the first damaged page, so no more is named.
pub(super) fn verify(engine: &Postgres, report: &mut dyn FnMut(Damage)) -> Result<u64> {
    let mut link = engine.link()?;
    let mut keys = 0;
    let outcome = link
        .batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .and_then(|()| walk(engine, &mut link, &mut keys, report));
    let _ = link.batch("ROLLBACK");
    match outcome {
        Ok(()) => Ok(keys),
        Err(error) if is_damage(&error) => {
            let what = error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
            let what = one_line(&what);
            report(match engine.server {
                Some(_) => place(engine.home.dir(), &what),
                // Its files are the existing server's business.
                None => Damage { file: engine.home.dir().to_owned(), offset: 0, what },
            });
            Ok(keys)
        }
        Err(error) => Err(engine.after(error, "verify")),
    }
}

fn walk(
    engine: &Postgres,
    link: &mut Taken<'_>,
    keys: &mut u64,
    report: &mut dyn FnMut(Damage),
) -> Result<(), postgres::Error> {
    let mut last: Vec<u8> = Vec::new();
    loop {
        let rows: Vec<Row> = engine.pool.query(link, Sql::After, &[&last.as_slice(), &engine.rows_at_once(ROWS)])?;
        for row in &rows {
            let key = bytes(row, 0).unwrap_or_default();
            if *keys > 0 && last.as_slice() >= key {
                let (file, what) = (engine.home.dir().to_owned(), format!("key number {keys} is out of order"));
                report(Damage { file, offset: 0, what });
            }
            engine.saw(bytes(row, 1).map_or(0, <[u8]>::len));
            last.clear();
            last.extend_from_slice(key);
            *keys += 1;
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

/// Where `invalid page in block 5 of relation base/5/16385` lies; the cluster as a whole where a message names no page.
fn place(dir: &Path, what: &str) -> Damage {
    let number = |after: &str| what.split(after).nth(1)?.split_whitespace().next()?.parse::<u64>().ok();
    let named = what.split("relation ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let cluster = dir.join(DATA);
    match (number("block "), named.map(|name| name.trim_matches('"'))) {
        (Some(block), Some(name)) if name.starts_with("base/") => {
            let part = match block / FILE_PAGES {
                0 => String::new(),
                part => format!(".{part}"),
            };
            let file = cluster.join(format!("{name}{part}"));
            Damage { file, offset: block % FILE_PAGES * PAGE_BYTES, what: what.to_owned() }
        }
        _ => Damage { file: cluster, offset: 0, what: what.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_page_is_named_by_its_file_and_offset() {
        let at = |what: &str| {
            let damage = place(Path::new("/s"), what);
            (damage.file.display().to_string(), damage.offset)
        };
        assert_eq!(at("invalid page in block 5 of relation base/5/16385"), ("/s/cluster/base/5/16385".into(), 40_960));
        assert_eq!(at("invalid page in block 131073 of relation base/5/7"), ("/s/cluster/base/5/7.1".into(), 8_192));
        assert_eq!(at("missing chunk number 0 for toast value 3"), ("/s/cluster".into(), 0));
    }
}
