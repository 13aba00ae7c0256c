//! What the fuzz targets share: each hands its bytes to one property of `biombo_properties`.
#![forbid(unsafe_code)]

use std::path::Path;

use biombo_properties::{ALL, Property};
#[doc(hidden)]
pub use libfuzzer_sys;

/// The property called `name`.
pub fn property(name: &str) -> Property {
    *ALL.iter().find(|property| property.name == name).expect("a target is called as its property")
}

/// Before the first input: with `BIOMBO_FUZZ_SEEDS` set, the property's examples are written to that directory. They follow from
/// the code (most of them from stores that it makes), so none is kept in the repository.
pub fn begin(name: &str) {
    let Some(dir) = std::env::var_os("BIOMBO_FUZZ_SEEDS") else { return };
    let dir = Path::new(&dir);
    std::fs::create_dir_all(dir).expect("the directory of seeds can be made");
    for (number, example) in (property(name).examples)().iter().enumerate() {
        std::fs::write(dir.join(format!("example-{number}")), example).expect("a seed can be written");
    }
}

/// A fuzz target over the property of this name.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(init: $crate::begin($name), |data: &[u8]| {
            ($crate::property($name).holds)(data)
        });
    };
}
