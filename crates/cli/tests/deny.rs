//! The checks of `deny.toml` without cargo-deny, which takes minutes to build: licences, sources, bans and duplicate
//! versions, over `cargo metadata` of what this platform builds with all features. Advisories are not checked here: they
//! need a database from the network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn policy() -> toml::Table {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml is there");
    text.parse().expect("deny.toml is TOML")
}

fn words(policy: &toml::Table, section: &str, list: &str) -> BTreeSet<String> {
    let items = policy[section][list].as_array().expect("a list");
    items
        .iter()
        .map(|item| item.as_str().or_else(|| item.get("name")?.as_str()).expect("a string or a name").to_owned())
        .collect()
}

/// The packages that are really built here: `packages` also lists those of other platforms, `resolve` does not.
fn packages() -> Vec<Value> {
    let host = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let host = String::from_utf8_lossy(&host.stdout);
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--all-features", "--locked", "--filter-platform", &host])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let built: BTreeSet<&str> =
        metadata["resolve"]["nodes"].as_array().expect("nodes").iter().filter_map(|node| node["id"].as_str()).collect();
    let all = metadata["packages"].as_array().expect("packages");
    all.iter().filter(|package| package["id"].as_str().is_some_and(|id| built.contains(id))).cloned().collect()
}

fn label(package: &Value) -> String {
    format!("{} {}", package["name"].as_str().unwrap_or("?"), package["version"].as_str().unwrap_or("?"))
}

/// Whether an SPDX expression can be satisfied with `allowed` licences. `AND` binds tighter than `OR`; the old `/` means OR.
fn allows(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let answer = any(&tokens, &mut at, allowed);
    answer && at == tokens.len()
}

fn any(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut answer = all(tokens, at, allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        answer |= all(tokens, at, allowed);
    }
    answer
}

fn all(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut answer = one(tokens, at, allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        answer &= one(tokens, at, allowed);
    }
    answer
}

fn one(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if *token == "(" {
        let answer = any(tokens, at, allowed);
        *at += 1;
        return answer;
    }
    let mut name = (*token).to_owned();
    if tokens.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", tokens.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    allowed.contains(&name)
}

#[test]
fn a_licence_expression_is_read_as_spdx_means_it() {
    let allowed: BTreeSet<String> = ["MIT", "Apache-2.0 WITH LLVM-exception"].map(String::from).into();
    for good in ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND MIT", "Apache-2.0 WITH LLVM-exception"] {
        assert!(allows(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(MIT OR GPL-3.0) AND GPL-3.0", "", "MIT MIT"] {
        assert!(!allows(bad, &allowed), "{bad}");
    }
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let allowed = words(&policy(), "licenses", "allow");
    let bad: Vec<_> = packages()
        .iter()
        .filter(|package| !allows(package["license"].as_str().unwrap_or(""), &allowed))
        .map(|package| format!("{}: {}", label(package), package["license"]))
        .collect();
    assert!(bad.is_empty(), "licences that deny.toml does not allow:\n{}", bad.join("\n"));
}

#[test]
fn every_dependency_comes_from_an_allowed_registry() {
    let allowed = words(&policy(), "sources", "allow-registry");
    let bad: Vec<_> = packages()
        .iter()
        .filter(|package| {
            package["source"].as_str().is_some_and(|source| {
                !source.strip_prefix("registry+").is_some_and(|registry| allowed.contains(registry))
            })
        })
        .map(label)
        .collect();
    assert!(bad.is_empty(), "sources that deny.toml does not allow:\n{}", bad.join("\n"));
}

#[test]
fn no_dependency_is_banned_or_there_twice() {
    let policy = policy();
    let (banned, skipped) = (words(&policy, "bans", "deny"), words(&policy, "bans", "skip"));
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        let name = package["name"].as_str().expect("a name").to_owned();
        assert!(!banned.contains(&name), "{name} is banned by deny.toml");
        versions.entry(name).or_default().insert(package["version"].as_str().unwrap_or("?").to_owned());
    }
    let twice: Vec<_> = versions.iter().filter(|(name, v)| v.len() > 1 && !skipped.contains(*name)).collect();
    assert!(twice.is_empty(), "several versions of one crate: {twice:?}");
    let stale: Vec<_> = skipped.iter().filter(|name| versions.get(*name).is_none_or(|v| v.len() < 2)).collect();
    assert!(stale.is_empty(), "deny.toml skips duplicates that are gone: {stale:?}");
}

/// Names and versions of a lock file.
fn locked(file: &str) -> BTreeSet<(String, String)> {
    let text = std::fs::read_to_string(root().join(file)).expect("the lock file is there");
    let lock: toml::Table = text.parse().expect("a lock file is TOML");
    let field = |package: &toml::Value, name: &str| package[name].as_str().expect("a string").to_owned();
    let packages = lock["package"].as_array().expect("packages");
    packages.iter().map(|package| (field(package, "name"), field(package, "version"))).collect()
}

/// What is fuzzed is what is built: the checks above hold for it too.
#[test]
fn the_fuzz_targets_are_built_of_the_same_packages_and_libfuzzer() {
    let ours = locked("Cargo.lock");
    // jobserver: parallel compilation of libFuzzer by the crate cc.
    let more: BTreeSet<_> = ["biombo-fuzz", "libfuzzer-sys", "jobserver"].into();
    let strays: Vec<_> = locked("fuzz/Cargo.lock")
        .into_iter()
        .filter(|package| !ours.contains(package) && !more.contains(package.0.as_str()))
        .collect();
    assert!(strays.is_empty(), "fuzz/Cargo.lock has {strays:?}; copy Cargo.lock there and build the targets");
}
