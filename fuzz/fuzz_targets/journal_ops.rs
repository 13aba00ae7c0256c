#![no_main]
biombo_fuzz::target!("journal_ops");
