#![no_main]
biombo_fuzz::target!("lab_json");
