//! Options of a store from a configuration file.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use biombo_base::io::IoMode;
use biombo_base::size::parse_bytes;
use biombo_engine::{Durability, Error, Result};
use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Executor, Options, PARTITIONS_MAX, Partitioning, PlacementKind};

/// What a configuration file says: TOML, a line for each option, under the names of the command line. What it leaves out stays as it
/// is without it. `biombo advise` writes such a file, `biombo load --config` reads it, and [`Options::config`] takes it.
///
/// ```
/// use biombo_engine::{Registry, memory};
/// use biombo_store::{Config, Options, Partitioning};
/// # fn main() -> biombo_engine::Result<()> {
/// # let mut registry = Registry::new();
/// # registry.add(memory::kind());
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// let config = Config::parse("engine = 'memory'\npartitions = 4\ncache-bytes = 67108864\n")?;
/// let store = Options::new().config(&config).open(dir.path().join("db"), &registry)?;
/// assert_eq!((store.partitions(), store.partitioning()), (4, Partitioning::Hard));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Config {
    /// The engine's name: [`Options::engine`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// How many partitions, 1 to [`PARTITIONS_MAX`]: [`Options::partitions`].
    #[serde(deserialize_with = "partitions", skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// `hard`, `soft` or `none`: [`Options::partitioning`].
    #[serde(deserialize_with = "word", serialize_with = "name", skip_serializing_if = "Option::is_none")]
    pub partitioning: Option<Partitioning>,
    /// `hash` or `range`: [`Options::placement`].
    #[serde(deserialize_with = "word", serialize_with = "name", skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementKind>,
    /// `direct`, or `pinned-2` for two workers: [`Options::executor`].
    #[serde(deserialize_with = "word", serialize_with = "name", skip_serializing_if = "Option::is_none")]
    pub executor: Option<Executor>,
    /// Directories over which the partitions are spread: [`Options::dirs`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<Vec<PathBuf>>,
    /// All memory for caches and buffers, in bytes, or as text with a unit (`"64MiB"`): [`Options::cache_bytes`].
    #[serde(deserialize_with = "bytes", skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// `sync`, `os` or `relaxed`: [`Options::durability`].
    #[serde(deserialize_with = "word", serialize_with = "name", skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// The usual size of a value in bytes, at least 1: [`Options::value_bytes`].
    #[serde(deserialize_with = "value_bytes", skip_serializing_if = "Option::is_none")]
    pub value_bytes: Option<u32>,
    /// Bytes on disk by bytes of live data, at least 1.05: [`Options::space_amplification`].
    #[serde(deserialize_with = "amplification", skip_serializing_if = "Option::is_none")]
    pub space_amplification: Option<f64>,
    /// `mmap` or `direct`: [`Options::io_mode`].
    #[serde(deserialize_with = "word", serialize_with = "name", skip_serializing_if = "Option::is_none")]
    pub io: Option<IoMode>,
    /// How `biombo load` reads lines, one of [`FORMATS`](Self::FORMATS); nothing to a store.
    #[serde(deserialize_with = "format", skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

impl Config {
    /// What `format` may be.
    pub const FORMATS: [&str; 3] = ["tsv", "jsonl", "lines"];

    /// The file `path`.
    ///
    /// # Errors
    /// `Invalid`, naming file, line and option, where it holds anything else; that of reading it.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(format!("read {}", path.display()), e))?;
        read(&text).map_err(|(line, what)| Error::invalid(format!("{}:{line}: {what}", path.display())))
    }

    /// As [`read`](Self::read), of the `text` of a file.
    ///
    /// ```
    /// let error = biombo_store::Config::parse("engine = 'log'\nplacement = 'sorted'\n").unwrap_err().to_string();
    /// assert!(error.contains("line 2: placement `sorted`") && error.contains("`hash`"), "{error}");
    /// ```
    ///
    /// # Errors
    /// `Invalid`, naming line and option.
    pub fn parse(text: &str) -> Result<Self> {
        read(text).map_err(|(line, what)| Error::invalid(format!("line {line}: {what}")))
    }

    /// As the lines of a file.
    ///
    /// # Errors
    /// `Invalid` for a directory whose name is no UTF-8, which TOML cannot hold.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|e| Error::invalid(format!("cannot write the configuration: {e}")))
    }
}

impl Options {
    /// Everything that `config` says, over what was set before.
    pub fn config(mut self, config: &Config) -> Self {
        let Config { engine, partitions, partitioning, placement, dir, cache_bytes, .. } = config.clone();
        self.engine = engine.or(self.engine);
        self.partitions = partitions.or(self.partitions);
        self.partitioning = partitioning.or(self.partitioning);
        self.placement = placement.or(self.placement);
        self.executor = config.executor.unwrap_or(self.executor);
        self.dirs = dir.unwrap_or(self.dirs);
        self.cache_bytes = cache_bytes.or(self.cache_bytes);
        self.durability = config.durability.or(self.durability);
        self.value_bytes = config.value_bytes.or(self.value_bytes);
        self.space_amplification = config.space_amplification.or(self.space_amplification);
        self.io_mode = config.io.or(self.io_mode);
        self
    }
}

/// The configuration in `text`; the line of what is wrong, and what it is.
fn read(text: &str) -> std::result::Result<Config, (usize, String)> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let before = text.get(..at).unwrap_or_default();
        let line = text.lines().nth(before.matches('\n').count()).unwrap_or_default();
        let key = line.split_once('=').map(|(key, _)| key.trim()).filter(|key| !error.message().contains(key));
        let what = key.map_or(String::new(), |key| format!("{key}: ")) + error.message();
        (before.matches('\n').count() + 1, what.split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

/// A word that the type knows.
fn word<'de, T, D>(from: D) -> std::result::Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
}

fn name<T: Display, S: Serializer>(value: &Option<T>, to: S) -> std::result::Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_none(),
    }
}

/// A number within `range`.
fn within<'de, D: Deserializer<'de>>(
    from: D,
    range: RangeInclusive<u32>,
) -> std::result::Result<Option<u32>, D::Error> {
    let number = i64::deserialize(from)?;
    u32::try_from(number)
        .ok()
        .filter(|number| range.contains(number))
        .map(Some)
        .ok_or_else(|| D::Error::custom(format!("{number} is not {} to {}", range.start(), range.end())))
}

fn partitions<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<u32>, D::Error> {
    within(from, 1..=PARTITIONS_MAX)
}

fn value_bytes<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<u32>, D::Error> {
    within(from, 1..=u32::MAX)
}

/// A number of bytes, or a text with a unit.
fn bytes<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<u64>, D::Error> {
    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = u64;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("a number of bytes, or a text such as \"64MiB\"")
        }

        fn visit_i64<E: serde::de::Error>(self, number: i64) -> std::result::Result<u64, E> {
            u64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
        }

        fn visit_u64<E: serde::de::Error>(self, number: u64) -> std::result::Result<u64, E> {
            Ok(number)
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<u64, E> {
            parse_bytes(text).map_err(E::custom)
        }
    }

    from.deserialize_any(Bytes).map(Some)
}

fn format<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<String>, D::Error> {
    let name = String::deserialize(from)?;
    if Config::FORMATS.contains(&name.as_str()) {
        return Ok(Some(name));
    }
    Err(D::Error::custom(format!("format `{name}` is none of `{}`", Config::FORMATS.join("`, `"))))
}

fn amplification<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<f64>, D::Error> {
    let bound = f64::deserialize(from)?;
    if bound.is_finite() && bound >= 1.05 {
        Ok(Some(bound))
    } else {
        Err(D::Error::custom(format!("{bound} is not at least 1.05")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Config {
        Config {
            engine: Some("log".into()),
            partitions: Some(8),
            partitioning: Some(Partitioning::Hard),
            placement: Some(PlacementKind::Range),
            executor: Some(Executor::Pinned { workers: 2 }),
            dir: Some(vec!["one".into(), "two".into()]),
            cache_bytes: Some(1 << 30),
            durability: Some(Durability::Os),
            value_bytes: Some(1_000),
            space_amplification: Some(1.5),
            io: Some(IoMode::Direct),
            format: Some("lines".into()),
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_said_is_nothing_written() {
        let text = whole().to_toml().unwrap();
        assert_eq!(Config::parse(&text).unwrap(), whole(), "{text}");
        assert!(text.lines().count() == 12 && text.contains("executor = \"pinned-2\""), "{text}");
        assert_eq!(
            (Config::default().to_toml().unwrap(), Config::parse("").unwrap()),
            (String::new(), Config::default())
        );
    }

    #[test]
    fn a_size_may_have_a_unit_as_on_the_command_line() {
        for text in ["cache-bytes = 67108864", "cache-bytes = \"64MiB\""] {
            assert_eq!(Config::parse(text).unwrap().cache_bytes, Some(64 << 20), "{text}");
        }
    }

    #[test]
    fn a_file_says_every_option_and_wins_over_what_was_set() {
        let set = Options::new().engine("lmdb").partitions(2).cache_bytes(1).durability(Durability::Sync);
        let options = set.clone().config(&whole());
        assert_eq!(
            (options.engine.as_deref(), options.partitions, options.cache_bytes),
            (Some("log"), Some(8), Some(1 << 30))
        );
        assert_eq!((options.partitioning, options.placement), (Some(Partitioning::Hard), Some(PlacementKind::Range)));
        assert_eq!((options.durability, options.value_bytes), (Some(Durability::Os), Some(1_000)));
        assert_eq!((options.space_amplification, options.io_mode), (Some(1.5), Some(IoMode::Direct)));
        assert_eq!(options.executor, Executor::Pinned { workers: 2 });
        assert_eq!(options.dirs, [PathBuf::from("one"), PathBuf::from("two")]);
        let as_before = set.executor(Executor::Pinned { workers: 3 }).config(&Config::default());
        assert_eq!(as_before.executor, Executor::Pinned { workers: 3 });
        assert_eq!((as_before.engine.as_deref(), as_before.partitions), (Some("lmdb"), Some(2)));
        assert_eq!((as_before.cache_bytes, as_before.durability), (Some(1), Some(Durability::Sync)));
    }

    #[test]
    fn what_is_wrong_is_named_by_file_line_and_option() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.toml");
        for (line, says) in [
            ("partitions = 0", "partitions: 0 is not 1 to 1024"),
            ("partitions = -1", "partitions: -1 is not 1 to 1024"),
            ("partitions = 'many'", "partitions: "),
            ("partitioning = \"firm\"", "partitioning `firm` is none of"),
            ("placement = \"sorted\"", "placement `sorted` is none of"),
            ("executor = \"pinned\"", "executor `pinned` is none of `direct` and `pinned-N`"),
            ("executor = \"pinned-0\"", "the executor pinned has 1 to 1024 workers, not 0"),
            ("executor = \"pinned--1\"", "executor `pinned--1` is none of"),
            ("durability = \"yes\"", "durability `yes` is none of"),
            ("io = \"tape\"", "io: `tape` is no way of reading"),
            ("value-bytes = 0", "value-bytes: 0 is not"),
            ("space-amplification = 1.0", "space-amplification: 1 is not at least 1.05"),
            ("space-amplification = nan", "space-amplification: NaN is not at least 1.05"),
            ("cache-bytes = -5", "cache-bytes: "),
            ("cache-bytes = '64 miles'", "cache-bytes: `miles` is no unit"),
            ("engine = 7", "engine: "),
            ("format = 'csv'", "format `csv` is none of `tsv`, `jsonl`, `lines`"),
            ("engin = \"log\"", "unknown field `engin`"),
            ("engine = ", "engine: "),
        ] {
            std::fs::write(&file, format!("# of a test\n\n{line}\n")).unwrap();
            let error = Config::read(&file).unwrap_err().to_string();
            assert!(error.contains("c.toml:3: ") && error.contains(says) && !error.contains('\n'), "{line}: {error}");
        }
        let missing = Config::read(&dir.path().join("nosuch")).unwrap_err().to_string();
        assert!(missing.contains("nosuch"), "{missing}");
    }
}
