#![no_main]
biombo_fuzz::target!("index_image");
