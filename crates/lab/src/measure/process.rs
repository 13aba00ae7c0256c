//! What the kernel counts for this process.

/// Bytes that this process caused to be written to storage: pages dirtied and direct writes, less pages that were dropped
/// before they were written (`write_bytes` less `cancelled_write_bytes` of `/proc/self/io`). `None` where the kernel does
/// not say.
pub fn written_bytes() -> Option<u64> {
    parse_io(&std::fs::read_to_string("/proc/self/io").ok()?)
}

fn parse_io(text: &str) -> Option<u64> {
    Some(field(text, "write_bytes:")?.saturating_sub(field(text, "cancelled_write_bytes:")?))
}

/// The most memory that this process has had resident so far, in bytes; pages of mapped files count.
pub fn rss_bytes_max() -> Option<u64> {
    Some(field(&std::fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")? * 1024)
}

/// The number after the line's beginning `name`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_pages_are_not_counted_as_written() {
        let text = "rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 1000\ncancelled_write_bytes: 300\n";
        assert_eq!(parse_io(text), Some(700));
        assert_eq!(parse_io("nothing"), None);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(rss_bytes_max().unwrap() > 100_000);
    }
}
