//! A PostgreSQL server of the instance's own: made, started, watched and stopped.
//!
//! 1. It listens on a socket in a private directory alone; whoever may enter there is its superuser.
//! 2. It is a child of this process, so that what it wrote counts among what this process's children wrote, and it dies with this process:
//!    a second child, the *watch*, waits for the end of a pipe whose other end only this process has. However this process ends, the
//!    watch tells the server to end its transactions, write what it has and stop, and removes the directory of the socket. There is no
//!    other way of stopping it.
//! 3. An instance whose former server still stops waits for it.
//!
//! Crash argument: the cluster is made by `initdb`, which syncs it, below a marker that says nothing yet; what a cut creation left is
//! removed by the next one. Afterwards PostgreSQL's own recovery has all that it needs.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use biombo_base::{Error, ErrorKind, Result};

use super::errors::{kind_of, last_words, one_line};
use super::programs::{Account, Programs, run_as};
use super::settings::{PORT, SESSION};

/// The cluster's directory, and its server's messages, within an instance.
pub(super) const DATA: &str = "cluster";
const LOG: &str = "postgres.log";
/// The superuser of a cluster.
const USER: &str = "biombo";
/// How long a server may take to start or stop: recovery reads its log, a stop writes its buffers.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(10);

/// What the watch does: `$1` is the server, `$2` the directory of its socket. Where its parent dies while it is stopped, the kernel lets it go on
/// with a hang-up, which is no reason to leave the server behind; the processes of the server are let go on here, as nobody else does.
const WATCH: &str = "trap '' HUP; read -r nothing; kill -CONT $(cat /proc/\"$1\"/task/*/children 2>/dev/null) 2>/dev/null; \
                     kill -INT \"$1\" 2>/dev/null; n=0; \
                     while kill -0 \"$1\" 2>/dev/null && [ $n -lt 1800 ]; do sleep 0.1; n=$((n+1)); done; rm -rf \"$2\"";

/// A running server.
#[derive(Debug)]
pub(super) struct Cluster {
    children: Mutex<Children>,
    sockets: PathBuf,
    log: PathBuf,
}

#[derive(Debug)]
struct Children {
    server: Child,
    /// `None` once the server is gone.
    watch: Option<Child>,
}

/// Make the cluster of a new instance in `dir`, in the place of what a cut creation left.
pub(super) fn create(dir: &Path) -> Result<()> {
    let (programs, account) = (Programs::find()?, Account::choose()?);
    let data = dir.join(DATA);
    let doing = |what: &'static str| move |e| Error::io(format_args!("{what} {}", dir.display()), e);
    match fs::remove_dir_all(&data) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(doing("clear the directory")(e)),
        _ => {}
    }
    private_dir(&data, account).map_err(doing("make the cluster in"))?;
    if let Some(account) = account {
        // The instance's own directory must let the server's account through; who stands above it is the user's business.
        open_to_all(dir).map_err(doing("let PostgreSQL into"))?;
        if !account.reaches(&data) {
            return Err(Error::invalid(format!(
                "PostgreSQL does not run as root, and the account that runs it may not enter {}: choose a directory below those that \
                 everybody may enter, or run this as another user",
                dir.display()
            )));
        }
    }
    let mut initdb = Command::new(programs.initdb());
    initdb
        .args([
            "--auth=trust",
            "--encoding=SQL_ASCII",
            "--locale=C",
            "--data-checksums",
            "--username",
            USER,
            "--pgdata",
        ])
        .arg(&data);
    let made = run_as(plain(&mut initdb), account)
        .stderr(Stdio::piped())
        .output()
        .map_err(|e| Error::io(format_args!("start {}", programs.initdb().display()), e))?;
    if made.status.success() {
        return Ok(());
    }
    let words = one_line(&String::from_utf8_lossy(&made.stderr));
    Err(Error::new(
        kind_of(&words, ErrorKind::Io),
        format!("cannot make a PostgreSQL cluster in {}: {words}", dir.display()),
    ))
}

impl Cluster {
    /// Start the server of the instance in `dir`, and wait until it answers.
    pub(super) fn start(dir: &Path, settings: &[(String, String)]) -> Result<Self> {
        let (data, log) = (dir.join(DATA), dir.join(LOG));
        let (programs, account) = (Programs::find()?, Account::of(&data)?);
        if !data.join("PG_VERSION").is_file() {
            return Err(Error::corruption(data, 0, "the cluster is gone; restore the directory from a copy"));
        }
        wait_for_the_former(dir, &data)?;
        let messages = File::create(&log).map_err(|e| Error::io(format_args!("write {}", log.display()), e))?;
        let sockets = socket_dir(account).map_err(|e| Error::io("make a directory for PostgreSQL's socket", e))?;
        let mut server = Command::new(programs.postgres());
        server.arg("-D").arg(&data).arg("-k").arg(&sockets);
        for (name, value) in settings {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        let server = run_as(plain(&mut server), account).stderr(messages).spawn();
        let mut server = server.map_err(|e| {
            let _ = fs::remove_dir_all(&sockets);
            Error::io(format_args!("start {}", programs.postgres().display()), e)
        })?;
        let mut watch = Command::new("/bin/sh");
        watch.args(["-c", WATCH, "sh"]).arg(server.id().to_string()).arg(&sockets);
        let watch = match run_as(plain(&mut watch), account).stdin(Stdio::piped()).spawn() {
            Ok(watch) => watch,
            Err(e) => {
                let _ = server.kill().and_then(|()| server.wait());
                let _ = fs::remove_dir_all(&sockets);
                return Err(Error::io("start /bin/sh", e));
            }
        };
        let cluster = Self { children: Mutex::new(Children { server, watch: Some(watch) }), sockets, log };
        cluster.wait_until_it_answers(dir)?;
        Ok(cluster)
    }

    /// How to connect.
    pub(super) fn address(&self) -> postgres::Config {
        let mut config = postgres::Config::new();
        config.host_path(&self.sockets).port(PORT).user(USER).dbname("postgres").options(SESSION);
        config.application_name("biombo");
        config
    }

    /// Why the server is gone, once it is.
    pub(super) fn obituary(&self) -> Option<String> {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        // It tells its connections a moment before it is gone.
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            if let Ok(Some(status)) = children.server.try_wait() {
                // Its number may be another's from now on: the watch must tell nobody to end.
                children.dismiss(&self.sockets);
                return Some(format!("the PostgreSQL server ended ({status}): {}", last_words(&self.log)));
            }
            std::thread::sleep(POLL);
        }
        None
    }

    fn wait_until_it_answers(&self, dir: &Path) -> Result<()> {
        let config = self.address();
        let began = Instant::now();
        loop {
            match config.connect(postgres::NoTls) {
                Ok(_) => return Ok(()),
                Err(error) => {
                    let ended = {
                        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
                        children.server.try_wait().ok().flatten()
                    };
                    let why = match ended {
                        Some(_) => last_words(&self.log),
                        None if began.elapsed() > PATIENCE => one_line(&error.to_string()),
                        None => {
                            std::thread::sleep(POLL);
                            continue;
                        }
                    };
                    let text = format!("the PostgreSQL server of {} does not start: {why}", dir.display());
                    return Err(Error::new(kind_of(&why, ErrorKind::Io), text));
                }
            }
        }
    }
}

impl Children {
    /// End the watch of a server that is gone, and do what it would have done.
    fn dismiss(&mut self, sockets: &Path) {
        if let Some(mut watch) = self.watch.take() {
            let _ = watch.kill();
            let _ = watch.wait();
            let _ = fs::remove_dir_all(sockets);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let children = self.children.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Children { server, watch: Some(watch) } = children else { return };
        if matches!(server.try_wait(), Ok(Some(_))) {
            return children.dismiss(&self.sockets);
        }
        // The pipe ends: the watch stops the server.
        drop(watch.stdin.take());
        let until = Instant::now() + PATIENCE;
        while matches!(server.try_wait(), Ok(None)) {
            if Instant::now() > until {
                let _ = server.kill();
                let _ = server.wait();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = watch.wait();
    }
}

/// Nothing of this process's but its environment, without what PostgreSQL's programs would take from there; a Ctrl-C is not for it.
fn plain(command: &mut Command) -> &mut Command {
    for name in ["PGDATA", "PGPORT", "PGHOST", "PGUSER", "PGDATABASE", "PGOPTIONS"] {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C").current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// A directory that only `account` enters.
fn private_dir(path: &Path, account: Option<Account>) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    match account {
        Some(Account { uid, gid }) => chown(path, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

fn open_to_all(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = fs::metadata(dir)?.permissions();
    permissions.set_mode(permissions.mode() | 0o011);
    fs::set_permissions(dir, permissions)
}

/// A directory for the socket, in a place whose name is short enough for one.
fn socket_dir(account: Option<Account>) -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // A socket's whole name has at most 107 bytes.
    let base = Some(std::env::temp_dir()).filter(|dir| dir.as_os_str().len() < 60).unwrap_or_else(|| "/tmp".into());
    loop {
        let name = format!("biombo-postgres-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = base.join(name);
        match private_dir(&path, account) {
            // Of a process of this number before us.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
}

/// The directory is ours, so a server that still works in it was left by a process that was killed, and is stopping.
fn wait_for_the_former(dir: &Path, data: &Path) -> Result<()> {
    let began = Instant::now();
    while let Some(server) = former(data) {
        if began.elapsed() > PATIENCE {
            return Err(Error::new(
                ErrorKind::Busy,
                format!("the PostgreSQL server {server} still works in {}; stop it first", dir.display()),
            ));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// The process that the cluster's lock file names, while it lives and works there.
fn former(data: &Path) -> Option<u32> {
    let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let server = text.lines().next()?.trim().parse().ok()?;
    let works_in = fs::read_link(format!("/proc/{server}/cwd")).ok()?;
    (works_in == data.canonicalize().ok()?).then_some(server)
}
