//! The house rules that a machine can check. Each test reads the tree as text; CONTRIBUTING.md says why each rule is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The floors of the house: a crate names only crates on lower floors. CONTRIBUTING.md shows the same table.
const FLOORS: [(&str, u32); 14] = [
    ("biombo-base", 0),
    ("biombo-journal", 1),
    ("biombo-engine", 1),
    ("biombo-planner", 1),
    ("biombo-tracker", 1),
    ("biombo-graph", 2),
    ("biombo-foreign", 2),
    ("biombo-log", 2),
    ("biombo-micro", 2),
    ("biombo-store", 3),
    ("biombo-lab", 4),
    ("biombo", 5),
    ("biombo-cli", 6),
    ("biombo-properties", 7),
];

/// The crates that may hold unsafe code, under the rules of SAFETY.md.
const UNSAFE_CRATES: [&str; 2] = ["crates/base", "crates/engines/foreign"];

/// The crates that may hold it in these files only; the rest of them denies it.
const UNSAFE_FILES: [(&str, &[&str]); 2] = [
    (
        "crates/engines/log",
        &["src/index/memory.rs", "src/index/node/search.rs", "benches/index/counting.rs", "tests/index_loom/cell.rs"],
    ),
    (
        "crates/graph",
        &[
            "src/media/array.rs",
            "src/media/lent.rs",
            "src/media/numbers.rs",
            "src/media/pool.rs",
            "src/media/persistent/lines.rs",
            "src/media/persistent/mapped.rs",
            "src/team/call.rs",
        ],
    ),
];

/// The longest source file, in lines.
const FILE_LINES_MAX: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// Every text file of the project, by its path from the root.
fn files() -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).expect("a directory can be listed") {
            let path = entry.expect("an entry can be read").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if matches!(name.as_str(), ".git" | "target" | "fixtures" | "demo-data" | "corpus" | "artifacts") {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let local = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
                if local != "report.html" {
                    found.push((local, text));
                }
            }
        }
    }
    found.sort();
    assert!(found.len() > 40, "only {} files were found: the walk is broken", found.len());
    found
}

fn rust_files() -> Vec<(String, String)> {
    files().into_iter().filter(|(path, _)| path.ends_with(".rs")).collect()
}

/// A line without what stands in string literals and after `//`; good enough for the words looked for here.
fn code_of(line: &str) -> String {
    let mut code = String::new();
    let mut chars = line.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if quoted => drop(chars.next()),
            '"' => quoted = !quoted,
            '/' if !quoted && chars.peek() == Some(&'/') => break,
            _ if !quoted => code.push(c),
            _ => {}
        }
    }
    code
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word)
}

fn none(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

#[test]
fn no_source_file_is_longer_than_600_lines() {
    let long: Vec<_> = rust_files()
        .iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(path, lines)| format!("{path}: {lines} lines"))
        .collect();
    none(&long, "look for two ideas in these files");
}

/// Fails where a source file belongs to no crate: the compiler never looks at it, and nobody sees that it is dead.
#[test]
fn every_source_file_is_a_module_of_its_crate() {
    let all = rust_files();
    let mut found = Vec::new();
    for (path, _) in all.iter().filter(|(path, _)| path.contains("/src/")) {
        let (dir, name) = path.rsplit_once('/').unwrap_or_default();
        if matches!(name, "lib.rs" | "main.rs") || dir.ends_with("/src/bin") {
            continue;
        }
        let module =
            if name == "mod.rs" { dir.rsplit('/').next().unwrap_or_default() } else { name.trim_end_matches(".rs") };
        // In a file of the directory or of that above, by its name or by a path.
        let above = if name == "mod.rs" { dir.rsplit_once('/').unwrap_or_default().0 } else { dir };
        let higher = above.rsplit_once('/').unwrap_or_default().0;
        let names_it = |(other, text): &(String, String)| {
            let of = other.rsplit_once('/').unwrap_or_default().0;
            (of == above || of == higher)
                && text.lines().any(|line| {
                    let line = line.trim();
                    line.ends_with(&format!("mod {module};")) || (line.starts_with("#[path") && line.contains(name))
                })
        };
        if !all.iter().any(names_it) {
            found.push(path.clone());
        }
    }
    none(&found, "a source file that no `mod` names");
}

#[test]
fn nothing_names_a_path_of_somebodys_machine() {
    // Written in two parts so that this file does not find itself.
    let needles: Vec<String> =
        [("/wo", "rk/"), ("/ho", "me/"), ("/ro", "ot/"), ("/Us", "ers/")].map(|(a, b)| format!("{a}{b}")).into();
    let mut found = Vec::new();
    for (path, text) in files() {
        for (number, line) in text.lines().enumerate() {
            if needles.iter().any(|needle| line.contains(needle.as_str())) {
                found.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    none(&found, "machine paths");
}

#[test]
fn nothing_is_left_to_be_done_in_the_code() {
    let macros: Vec<String> =
        [("todo", "!("), ("unimplemented", "!("), ("dbg", "!(")].map(|(a, b)| format!("{a}{b}")).into();
    let marks: Vec<String> = [("TO", "DO"), ("FIX", "ME"), ("XX", "X:")].map(|(a, b)| format!("{a}{b}")).into();
    let mut found = Vec::new();
    for (path, text) in rust_files() {
        for (number, line) in text.lines().enumerate() {
            let code = code_of(line);
            if macros.iter().any(|m| code.contains(m.as_str())) || marks.iter().any(|m| line.contains(m.as_str())) {
                found.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    none(&found, "unfinished code (say what is missing in an issue instead)");
}

#[test]
fn unsafe_code_stays_in_its_rooms() {
    let mut found = Vec::new();
    for (path, text) in rust_files() {
        if UNSAFE_CRATES.iter().any(|room| path.starts_with(room)) {
            continue;
        }
        let files = UNSAFE_FILES.iter().find(|(room, _)| path.starts_with(room));
        if files.is_some_and(|(room, files)| files.iter().any(|file| path == format!("{room}/{file}"))) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if has_word(&code_of(line), "unsafe") {
                found.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
        let is_root = path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
        let word = if files.is_some() { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
        if is_root && !text.contains(word) {
            found.push(format!("{path}: add {word}"));
        }
    }
    none(&found, "unsafe outside the crates that may have it");
}

/// The numbers of the rules in SAFETY.md: a line that, without its list, heading or emphasis marks, begins with capital
/// letters and a number (`B1`).
fn safety_rules() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("SAFETY.md")).unwrap_or_default();
    text.lines().filter_map(|line| rule_number(line.trim_start_matches(['#', '*', '-', '|', ' ', '(', '`']))).collect()
}

fn rule_number(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (letters, digits) = text[..end].split_at(text[..end].find(|c: char| c.is_ascii_digit())?);
    let is_rule = !letters.is_empty()
        && letters.len() <= 3
        && letters.chars().all(|c| c.is_ascii_uppercase())
        && digits.chars().all(|c| c.is_ascii_digit());
    is_rule.then(|| text[..end].to_owned())
}

/// The rules that the comment lines right above `number` (from 0) and the line itself cite.
fn cited(lines: &[&str], number: usize) -> Vec<String> {
    let mut text = lines[number].to_owned();
    // An unsafe block may stand some lines into its statement: look upwards for the comment, past code of the statement.
    for above in lines[..number].iter().rev().take(12) {
        text = format!("{above}\n{text}");
        if above.contains("SAFETY:") {
            break;
        }
    }
    let Some(from) = text.find("SAFETY:") else { return Vec::new() };
    text[from..].split(['(', ',', ' ', ')', ';']).filter_map(rule_number).collect()
}

#[test]
fn every_unsafe_block_cites_a_rule_of_safety_md() {
    let rules = safety_rules();
    let unique: BTreeSet<_> = rules.iter().cloned().collect();
    assert_eq!(unique.len(), rules.len(), "a rule number stands twice in SAFETY.md: {rules:?}");
    let (mut found, mut used) = (Vec::new(), BTreeSet::new());
    for (path, text) in rust_files() {
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let code = code_of(line);
            let begins = has_word(&code, "unsafe")
                && ["unsafe {", "unsafe impl"]
                    .iter()
                    .any(|form| code.contains(form) || code.trim_end().ends_with("unsafe"));
            if !begins {
                continue;
            }
            let cited = cited(&lines, number);
            if !cited.iter().any(|rule| unique.contains(rule)) {
                found.push(format!("{path}:{}: cites {cited:?}", number + 1));
            }
            used.extend(cited);
        }
    }
    none(&found, "unsafe without `// SAFETY: (RULE) ..` that names a rule of SAFETY.md");
    let unused: Vec<_> = unique.difference(&used).cloned().collect();
    none(&unused, "rules of SAFETY.md that no code cites");
}

fn manifests() -> BTreeMap<String, toml::Table> {
    files()
        .into_iter()
        .filter(|(path, _)| path.starts_with("crates/") && path.ends_with("/Cargo.toml"))
        .map(|(path, text)| {
            let manifest: toml::Table = text.parse().unwrap_or_else(|e| panic!("{path}: {e}"));
            (manifest["package"]["name"].as_str().expect("a name").to_owned(), manifest)
        })
        .collect()
}

#[test]
fn the_arrows_of_the_house_point_down() {
    let floors: BTreeMap<&str, u32> = FLOORS.into();
    let mut found = Vec::new();
    for (name, manifest) in manifests() {
        let Some(floor) = floors.get(name.as_str()) else {
            found.push(format!("{name} has no floor: add it to FLOORS and to CONTRIBUTING.md"));
            continue;
        };
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(table) = manifest.get(section).and_then(toml::Value::as_table) else { continue };
            for other in table.keys().filter(|other| *other == "biombo" || other.starts_with("biombo-")) {
                if floors.get(other.as_str()).is_none_or(|below| below >= floor) {
                    found.push(format!("{name} (floor {floor}) names {other} in its {section}"));
                }
                if other == "biombo-foreign" && name != "biombo" && section == "dependencies" {
                    found.push(format!("{name} knows concrete engines: only the face registers them"));
                }
            }
        }
    }
    none(&found, "arrows that do not point down");
}

#[test]
fn the_crate_map_names_every_crate_and_its_floor() {
    let map = std::fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md is there");
    let missing: Vec<_> = FLOORS
        .iter()
        .filter(|(name, floor)| {
            !map.lines().any(|line| line.contains(&format!("`{name}`")) && line.contains(&format!("| {floor} |")))
        })
        .map(|(name, floor)| format!("{name} on floor {floor}"))
        .collect();
    none(&missing, "the crate map of CONTRIBUTING.md lacks");
}

/// docs/graph.md names tests: a test that is renamed or goes must be looked for there too.
#[test]
fn the_tests_that_the_table_of_published_faults_names_exist() {
    let page = std::fs::read_to_string(root().join("docs/graph.md")).expect("docs/graph.md is there");
    let (_, table) = page.split_once("\n# Published faults").expect("the table of faults");
    let is_name =
        |word: &&str| word.len() > 20 && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    // What stands between backquotes.
    let named: BTreeSet<&str> = table.split('`').skip(1).step_by(2).filter(is_name).collect();
    assert!(named.len() > 20, "only {} tests are named", named.len());
    let code = rust_files();
    let missing: Vec<_> = named
        .into_iter()
        .filter(|name| !code.iter().any(|(_, text)| text.contains(&format!("fn {name}("))))
        .map(str::to_owned)
        .collect();
    none(&missing, "tests that docs/graph.md names and that are nowhere");
}

#[test]
fn a_feature_is_called_as_its_engine() {
    let manifests = manifests();
    let features = |name: &str| -> BTreeSet<String> {
        let table = manifests[name]["features"].as_table().expect("features");
        table.keys().filter(|feature| *feature != "default").cloned().collect()
    };
    let ours = features("biombo-cli");
    assert_eq!(ours, features("biombo"), "the features of biombo-cli and biombo differ");
    // The adapters' features, and those of the engines that are crates of their own.
    let mut engines = features("biombo-foreign");
    engines.insert("log".to_owned());
    // The laboratory's own engines come together: each begins with the feature's name.
    engines.insert("micro".to_owned());
    // The one planner that is compiled from C.
    engines.insert("metis".to_owned());
    assert_eq!(ours, engines, "the features of biombo-cli and those of the engines differ");
    let strays: Vec<_> = biombo::registry()
        .iter()
        .map(|kind| kind.name.to_owned())
        .filter(|name| name != "memory" && !name.starts_with("micro-") && !ours.contains(name))
        .collect();
    none(&strays, "engines that no feature is called after");
}

#[test]
fn the_checks_see_what_they_look_for() {
    assert!(has_word(&code_of("let x = unsafe { y };"), "unsafe"));
    assert!(!has_word(&code_of(r#"let x = "a // b unsafe"; // unsafe"#), "unsafe"));
    assert!(!has_word(&code_of("#![forbid(unsafe_code)]"), "unsafe"));
    assert_eq!(rule_number("B12: text"), Some("B12".to_owned()));
    assert_eq!(rule_number("Base 1"), None);
    let lines = ["// SAFETY: (F3) the handle lives", "let x =", "    unsafe { y };"];
    assert_eq!(cited(&lines, 2), ["F3"]);
    assert!(cited(&lines[1..], 1).is_empty());
}
