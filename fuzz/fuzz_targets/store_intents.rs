#![no_main]
biombo_fuzz::target!("store_intents");
