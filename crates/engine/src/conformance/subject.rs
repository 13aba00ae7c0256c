//! What is tested, and one opened instance of it with the helpers that checks share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use tempfile::TempDir;

use super::model::Model;
use crate::{Capabilities, Cursor, Durability, Engine, EngineKind, ErrorKind, Op, OpenOptions, Result, Snapshot};

/// Opens an engine in a directory that exists, and is empty the first time.
pub type Opener = Arc<dyn Fn(&Path) -> Result<Arc<dyn Engine>> + Send + Sync>;

/// Something that claims to keep the Engine contract.
#[derive(Clone)]
pub struct Subject {
    /// What failures and kept seeds are filed under.
    pub name: String,
    /// What it declares.
    pub capabilities: Capabilities,
    /// Opens it.
    pub open: Opener,
    /// How long each random check and each check with many threads runs.
    pub budget: Duration,
    /// Where failing seeds are kept; `None`: nowhere.
    pub regressions: Option<PathBuf>,
}

impl Subject {
    /// A subject with the usual budget (1.5 s for a random check), whose failing seeds are kept beside the running tests.
    pub fn new(
        name: impl Into<String>,
        capabilities: Capabilities,
        open: impl Fn(&Path) -> Result<Arc<dyn Engine>> + Send + Sync + 'static,
    ) -> Self {
        let regressions =
            std::env::var_os("CARGO_MANIFEST_DIR").map(|dir| Path::new(&dir).join("proptest-regressions"));
        Self { name: name.into(), capabilities, open: Arc::new(open), budget: Duration::from_millis(1500), regressions }
    }

    /// An engine of a registry, opened with its default options.
    pub fn from_kind(kind: &EngineKind) -> Self {
        let open = Arc::clone(&kind.open);
        Self::new(kind.name, (kind.capabilities)(), move |dir| open(&OpenOptions::new(dir)))
    }

    /// The same with another budget for each random check. Below half a second it is a small one: for many subjects of one
    /// kind, the costliest value is left out too.
    pub fn with_budget(self, budget: Duration) -> Self {
        Self { budget, ..self }
    }

    /// The same without keeping failing seeds: for subjects that are meant to fail.
    pub fn without_regressions(self) -> Self {
        Self { regressions: None, ..self }
    }

    /// The time that a random check may take: `BIOMBO_CAMPAIGN_SECONDS` where it is set, else the budget.
    pub fn campaign(&self) -> Duration {
        let seconds = std::env::var("BIOMBO_CAMPAIGN_SECONDS").ok().and_then(|text| text.parse::<f64>().ok());
        seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(self.budget)
    }

    /// Whether only what is cheap should be done.
    pub fn has_small_budget(&self) -> bool {
        self.campaign() < Duration::from_millis(500)
    }

    /// A new instance in an empty temporary directory.
    #[track_caller]
    pub fn instance(&self) -> Instance {
        let home =
            TempDir::with_prefix("biombo-conformance-").unwrap_or_else(|e| panic!("no temporary directory: {e}"));
        let dir = home.path().join("instance");
        std::fs::create_dir(&dir).unwrap_or_else(|e| panic!("no temporary directory: {e}"));
        let engine = must((self.open)(&dir), "open in an empty directory");
        Instance { engine, dir, home, open: Arc::clone(&self.open), capabilities: self.capabilities.clone() }
    }

    /// Run `check` and panic when it has not come back in time: an engine that waits for itself must fail, not hang.
    #[track_caller]
    pub fn bounded(&self, check: impl FnOnce(&Subject) + Send + 'static) {
        let limit = Duration::from_secs(120) + self.campaign() * 4;
        let (done, wait) = channel();
        let subject = self.clone();
        let thread = std::thread::Builder::new().name(self.name.clone()).spawn(move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&subject)));
            let _ = done.send(());
            outcome
        });
        let thread = thread.unwrap_or_else(|e| panic!("no thread: {e}"));
        if let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(limit) {
            panic!("{}: no answer after {} s: does it wait for itself?", self.name, limit.as_secs());
        }
        if let Ok(Err(panic)) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// An opened instance in a temporary directory of its own. Dropped, it is closed and removed.
pub struct Instance {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Its directory.
    pub dir: PathBuf,
    home: TempDir,
    open: Opener,
    capabilities: Capabilities,
}

impl Instance {
    /// A path beside the instance's directory, for checkpoints.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Close and open again.
    #[track_caller]
    pub fn reopen(self) -> Self {
        let Self { engine, dir, home, open, capabilities } = self;
        drop(engine);
        let engine = must(open(&dir), "open again after a clean close");
        Self { engine, dir, home, open, capabilities }
    }

    /// Close; the directory stays until the returned guard is dropped.
    pub fn close(self) -> (PathBuf, TempDir) {
        let Self { engine, dir, home, .. } = self;
        drop(engine);
        (dir, home)
    }

    /// Put one key.
    #[track_caller]
    pub fn put(&self, key: &[u8], value: &[u8]) {
        self.apply(&[Op::Put { key, value }]);
    }

    /// Apply at `Os`.
    #[track_caller]
    pub fn apply(&self, ops: &[Op<'_>]) {
        must(self.engine.apply(ops, Durability::Os), "apply");
    }

    /// Read one key.
    #[track_caller]
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        must(self.engine.get(key), "get").map(|value| value.into_vec())
    }

    /// A cursor.
    #[track_caller]
    pub fn cursor(&self) -> Box<dyn Cursor> {
        must(Arc::clone(&self.engine).cursor(), "open a cursor")
    }

    /// A snapshot.
    #[track_caller]
    pub fn snapshot(&self) -> Arc<dyn Snapshot> {
        must(Arc::clone(&self.engine).snapshot(), "take a snapshot")
    }

    /// Panic unless the engine holds exactly what the model holds, read by points and, where ordered, by cursor.
    #[track_caller]
    pub fn same_as(&self, model: &Model) {
        if let Err(difference) = model.same_as_engine(&self.engine, &self.capabilities) {
            panic!("{difference}");
        }
    }
}

/// The value, or a panic that says what was being done.
#[track_caller]
pub fn must<T>(result: Result<T>, doing: &str) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{doing}: {error} ({:?})", error.kind()),
    }
}

/// Panic unless it is an error of `kind` whose message is one line for people.
#[track_caller]
pub fn must_refuse<T>(result: Result<T>, kind: ErrorKind, doing: &str) {
    match result {
        Ok(_) => panic!("{doing}: done, but {kind:?} was due"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{doing}: {error}");
            let message = error.to_string();
            assert!(!message.trim().is_empty() && !message.contains('\n'), "{doing}: not one line: {message:?}");
        }
    }
}

/// Incompressible bytes that differ for each seed.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        // splitmix64 (Steele, Lea and Flood 2014): every seed gives its own stream.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        out.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    out.truncate(len);
    out
}
