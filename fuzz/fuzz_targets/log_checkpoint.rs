#![no_main]
biombo_fuzz::target!("log_checkpoint");
