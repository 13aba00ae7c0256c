//! PostgreSQL's programs, and the account that they run under.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use biombo_base::{Error, Result};
use biombo_engine::registry::NOT_INSTALLED;

use super::remote;

/// Where Debian and Red Hat put each version's programs; the version stands between the parts.
const USUAL: [(&str, &str, &str); 2] = [("/usr/lib/postgresql", "", "bin"), ("/usr", "pgsql-", "bin")];

/// The directory of `initdb` and `postgres`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs(PathBuf);

impl Programs {
    /// On the path first, then the newest of the usual places.
    ///
    /// # Errors
    /// `Unsupported`, saying what to install, where there are none.
    pub(super) fn find() -> Result<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        Self::among(env::split_paths(&path).chain(usual()))
    }

    fn among(mut places: impl Iterator<Item = PathBuf>) -> Result<Self> {
        let is_whole = |dir: &PathBuf| ["initdb", "postgres"].iter().all(|name| dir.join(name).is_file());
        places.find(is_whole).map(Self).ok_or_else(|| {
            Error::unsupported(
                "the engine postgres needs PostgreSQL's programs initdb and postgres, and neither PATH nor /usr/lib/postgresql has \
                 them: install the package postgresql, or name a server in BIOMBO_POSTGRES",
            )
        })
    }

    pub(super) fn initdb(&self) -> PathBuf {
        self.0.join("initdb")
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.0.join("postgres")
    }
}

/// The usual places, the newest version first.
fn usual() -> impl Iterator<Item = PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for (base, before, below) in USUAL {
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let version = name.to_str().and_then(|name| name.strip_prefix(before)?.parse().ok());
            found.extend(version.map(|version| (version, entry.path().join(below))));
        }
    }
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found.into_iter().map(|(_, dir)| dir)
}

/// Such as `15.18`; what an existing server has is its own business, and stands among the options. Where there is one, the programs need
/// not be installed.
pub(super) fn version() -> String {
    let said = Programs::find().ok().and_then(|programs| {
        let output = Command::new(programs.postgres()).arg("--version").stdin(Stdio::null()).output().ok()?;
        String::from_utf8(output.stdout).ok()
    });
    // `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`
    let number = said.as_deref().and_then(|said| said.split_whitespace().nth(2));
    number.unwrap_or(if remote::is_named() { "of another server" } else { NOT_INSTALLED }).to_owned()
}

/// Whom the programs run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    /// PostgreSQL refuses to run as root: for root it is the account that the package made; `None`: whoever this is.
    pub(super) fn choose() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
        find_account(&accounts, "postgres").map(Some).ok_or_else(|| {
            Error::unsupported(
                "PostgreSQL does not run as root, and there is no account `postgres` to run it: install the package postgresql, or run \
                 this as another user",
            )
        })
    }

    /// Who owns an existing cluster runs it; otherwise as [`choose`](Self::choose).
    pub(super) fn of(data: &Path) -> Result<Option<Self>> {
        use std::os::unix::fs::MetadataExt;
        match (Self::choose()?, fs::metadata(data)) {
            (Some(_), Ok(meta)) if meta.uid() != 0 => Ok(Some(Self { uid: meta.uid(), gid: meta.gid() })),
            (chosen, _) => Ok(chosen),
        }
    }

    /// Whether it can work in `dir`: every directory above must let it through.
    pub(super) fn reaches(self, dir: &Path) -> bool {
        let mut look = Command::new("/bin/sh");
        look.args(["-c", "cd \"$1\"", "sh"]).arg(dir).current_dir("/");
        look.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        run_as(&mut look, Some(self)).status().is_ok_and(|status| status.success())
    }
}

/// `command` under `account`.
pub(super) fn run_as(command: &mut Command, account: Option<Account>) -> &mut Command {
    use std::os::unix::process::CommandExt;
    match account {
        Some(Account { uid, gid }) => command.uid(uid).gid(gid),
        None => command,
    }
}

/// The account `name` among the lines of /etc/passwd.
fn find_account(accounts: &str, name: &str) -> Option<Account> {
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some(Account { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let accounts =
            "root:x:0:0::/:/bin/sh\npostgresql:x:9:9::/:/\npostgres:x:101:104:P,,,:/var:/bin/bash\nbroken:x:a\n";
        assert_eq!(find_account(accounts, "postgres"), Some(Account { uid: 101, gid: 104 }));
        assert_eq!(find_account(accounts, "broken"), None);
        assert_eq!(find_account(accounts, "nobody"), None);
    }

    #[test]
    fn programs_count_only_where_both_are() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str, programs: &[&str]| {
            let place = dir.path().join(name);
            fs::create_dir(&place).unwrap();
            programs.iter().for_each(|program| fs::write(place.join(program), "").unwrap());
            place
        };
        let half = place("half", &["postgres"]);
        let whole = place("whole", &["initdb", "postgres"]);
        assert_eq!(Programs::among([half.clone(), whole.clone()].into_iter()).unwrap(), Programs(whole));
        let error = Programs::among([half].into_iter()).unwrap_err();
        assert_eq!(error.kind(), biombo_base::ErrorKind::Unsupported);
        assert!(error.to_string().contains("install the package postgresql"), "{error}");
    }
}
