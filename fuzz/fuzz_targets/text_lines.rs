#![no_main]
biombo_fuzz::target!("text_lines");
