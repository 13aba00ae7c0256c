//! Links the system libraries of the enabled engines, and says which Debian package is missing instead of letting the
//! linker fail. Only WiredTiger's shim is compiled here: its C API is structures of function pointers.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One system library: the features that need it, its header, its link name, its Debian package.
struct Library {
    features: &'static [&'static str],
    header: &'static str,
    link: &'static str,
    package: &'static str,
}

const LIBRARIES: &[Library] = &[
    Library { features: &["ROCKSDB"], header: "rocksdb/c.h", link: "rocksdb", package: "librocksdb-dev" },
    Library { features: &["LEVELDB"], header: "leveldb/c.h", link: "leveldb", package: "libleveldb-dev" },
    Library {
        features: &["TKRZW_TREE", "TKRZW_TREE_ZLIB", "TKRZW_HASH"],
        header: "tkrzw_langc.h",
        link: "tkrzw",
        package: "libtkrzw-dev",
    },
    Library { features: &["WIREDTIGER"], header: "wiredtiger.h", link: "wiredtiger", package: "libwiredtiger-dev" },
];

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
    for variable in ["CPATH", "C_INCLUDE_PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let mut missing = Vec::new();
    for library in LIBRARIES {
        if !library.features.iter().any(|feature| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some()) {
            continue;
        }
        match find_header(library.header) {
            Some(path) => {
                println!("cargo:rerun-if-changed={}", path.display());
                // Before the library that it calls: linkers look from left to right.
                #[cfg(feature = "wiredtiger")]
                if library.link == "wiredtiger" {
                    compile_wiredtiger_shim(path.parent());
                }
                println!("cargo:rustc-link-lib=dylib={}", library.link);
                if library.link == "rocksdb" {
                    println!("cargo:rustc-env=BIOMBO_ROCKSDB_VERSION={}", rocksdb_version(&path));
                }
            }
            None => missing.push(library),
        }
    }
    if missing.is_empty() {
        return ExitCode::SUCCESS;
    }
    for library in &missing {
        eprintln!("the header {} was not found: install the Debian package {}", library.header, library.package);
    }
    let packages: Vec<_> = missing.iter().map(|library| library.package).collect();
    eprintln!("run `sudo apt-get install {}`, or build without these engines' features", packages.join(" "));
    ExitCode::FAILURE
}

#[cfg(feature = "wiredtiger")]
fn compile_wiredtiger_shim(include: Option<&Path>) {
    const SHIM: &str = "src/wiredtiger_shim.c";
    println!("cargo:rerun-if-changed={SHIM}");
    cc::Build::new().file(SHIM).includes(include).warnings(true).compile("biombo_wiredtiger_shim");
}

/// Where the C compiler would find `header`.
fn find_header(header: &str) -> Option<PathBuf> {
    let given = ["CPATH", "C_INCLUDE_PATH"].iter().filter_map(env::var_os);
    let given: Vec<PathBuf> = given.flat_map(|list| env::split_paths(&list).collect::<Vec<_>>()).collect();
    let usual = ["/usr/include", "/usr/local/include", "/opt/homebrew/include"].map(PathBuf::from);
    given.into_iter().chain(usual).map(|dir: PathBuf| Path::join(&dir, header)).find(|path| path.is_file())
}

/// RocksDB's C API cannot tell its version; the header beside it can, and the library's name carries major and minor.
fn rocksdb_version(header: &Path) -> String {
    let text = std::fs::read_to_string(header.with_file_name("version.h")).unwrap_or_default();
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name));
        line.map_or_else(|| "?".to_owned(), |value| value.trim().to_owned())
    };
    ["ROCKSDB_MAJOR ", "ROCKSDB_MINOR ", "ROCKSDB_PATCH "].map(number).join(".")
}
