//! `biombo verify`: what is damaged, in a store that opens and in one that does not.

use std::path::Path;

use biombo::{Error, ErrorKind, Options};
use clap::Args;
use serde::Serialize;

use crate::args::{DirArg, JsonArg};
use crate::failure::{Done, Failure};
use crate::out::Out;
use crate::size::show_count;
use crate::store_args::try_open;

/// Read everything and report each damage; exit status 1 when there is any
#[derive(Debug, Args)]
#[command(after_help = "\
Each damage is one line: FILE: offset N: what is wrong. Engines without checksums (lmdb, tkrzw) can only show what their own
structure reveals. Every key is also checked to lie in the partition that owns it. Of a store that damage keeps from opening, what
can be told without opening it: each damage where the engine knows repair (log), else the one that is in the way.

Examples:
  biombo verify fruit
  biombo verify fruit --json     {\"file\":..,\"offset\":..,\"what\":..} a damage, then {\"keys\":..,\"damages\":..};
                                 keys is null where the store does not open")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    json: JsonArg,
}

/// A damage as JSON.
#[derive(Serialize)]
struct DamageLine {
    file: String,
    offset: u64,
    what: String,
}

#[derive(Serialize)]
struct Verified {
    /// None where the store does not open: they were not counted.
    keys: Option<u64>,
    damages: u64,
}

/// Says each damage as it is found.
pub(super) struct Damages {
    out: Out,
    is_json: bool,
    count: u64,
    said: Done,
}

impl Damages {
    pub(super) fn new(json: &JsonArg) -> Self {
        Self { out: Out::new(), is_json: json.json, count: 0, said: Ok(()) }
    }

    pub(super) fn say(&mut self, file: &Path, offset: u64, what: &str) {
        self.count += 1;
        let (file, what) = (file.display().to_string(), what.replace('\n', "; "));
        let line = if self.is_json {
            self.out.json(&DamageLine { file, offset, what })
        } else {
            self.out.line(format_args!("{file}: offset {offset}: {what}"))
        };
        if self.said.is_ok() {
            self.said = line;
        }
    }

    /// The place of an error that is a damage, of something in `dir`.
    pub(super) fn say_error(&mut self, dir: &Path, error: &Error) {
        let (file, offset) = error.place().unwrap_or((dir, 0));
        self.say(file, offset, error.message());
    }

    /// Where to go on saying things, unless something went wrong with that.
    pub(super) fn said(self) -> Done<Out> {
        self.said.map(|()| self.out)
    }
}

/// Run it.
pub(crate) fn verify(args: &VerifyArgs) -> Done {
    let dir = &args.dir.dir;
    let mut damages = Damages::new(&args.json);
    let (keys, next) = match try_open(dir) {
        Ok(store) => {
            let keys = store.verify(&mut |damage| damages.say(&damage.file, damage.offset, &damage.what))?;
            (Some(keys), next(dir, store.engine()))
        }
        Err(error) if error.kind() == ErrorKind::Corruption => (None, unopened(dir, &error, &mut damages)),
        Err(error) => return Err(error.into()),
    };
    let count = damages.count;
    let mut out = damages.said()?;
    match keys {
        _ if args.json.json => out.json(&Verified { keys, damages: count })?,
        Some(keys) if count == 0 => out.line(format_args!("{} keys read, no damage", show_count(keys)))?,
        _ => {}
    }
    out.finish()?;
    if keys.is_some() && count == 0 {
        return Ok(());
    }
    let (how, places) = (if keys.is_some() { "" } else { ", and does not open" }, if count == 1 { "" } else { "s" });
    Err(Failure::failed(format!("{} is damaged in {count} place{places}{how}: {next}", dir.display())))
}

/// Say what is damaged in the store in `dir`, which `error` keeps from opening. What to do.
fn unopened(dir: &Path, error: &Error, damages: &mut Damages) -> String {
    let registry = biombo::registry();
    let found = Options::new().inspect(dir, &registry, &mut |loss| damages.say(&loss.file, loss.offset, &loss.what));
    if found.is_ok_and(|found| found > 0) {
        return format!("`biombo repair {}` keeps all that is sound, or restore a backup", dir.display());
    }
    // An engine that cannot be repaired, or the store's own files.
    damages.say_error(dir, error);
    "restore a backup".to_owned()
}

/// What to do about a damaged store that opens, over `engine`.
fn next(dir: &Path, engine: &str) -> String {
    let registry = biombo::registry();
    let kind = registry.get(engine).ok();
    let mut ways = Vec::new();
    if kind.is_some_and(|kind| kind.repair.is_some()) {
        ways.push(format!("keep all that is sound by `biombo repair {}`", dir.display()));
    }
    ways.push("restore a backup".to_owned());
    if kind.is_some_and(|kind| (kind.capabilities)().ordered) {
        ways.push("save with `biombo scan` what can be read".to_owned());
    }
    ways.join(", or ")
}
