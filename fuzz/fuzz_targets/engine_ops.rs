#![no_main]
biombo_fuzz::target!("engine_ops");
