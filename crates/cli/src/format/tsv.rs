//! `key<TAB>value` a line.
//!
//! On input `\t`, `\n`, `\\` and `\xHH` (two hexadecimal digits of either case) stand for a tab, a newline, a backslash and any
//! byte; every other byte stands for itself. The first tab ends the key. On output only tab, newline, backslash and bytes that
//! are not valid UTF-8 are escaped, so that what is written is valid UTF-8 and reads back as the same bytes.

/// Split and unescape a line.
pub fn read(line: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<(), String> {
    let tab = line
        .iter()
        .position(|byte| *byte == b'\t')
        .ok_or("no tab between key and value: write key, tab, value (or give --format lines)")?;
    unescape(&line[..tab], key)?;
    unescape(&line[tab + 1..], value)
}

/// Append the bytes that `text` stands for.
pub fn unescape(text: &[u8], into: &mut Vec<u8>) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        into.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let (byte, used) = match rest.first() {
            Some(b't') => (b'\t', 1),
            Some(b'n') => (b'\n', 1),
            Some(b'\\') => (b'\\', 1),
            Some(b'x') => {
                let digits = rest.get(1..3).and_then(|digits| Some((digit(digits[0])?, digit(digits[1])?)));
                let (high, low) = digits.ok_or(r"\x is not followed by two hexadecimal digits")?;
                (high << 4 | low, 3)
            }
            Some(other) => {
                let shown = other.escape_ascii();
                return Err(format!(r"\{shown} is no escape: the escapes are \t \n \\ \xHH, a backslash itself is \\"));
            }
            None => return Err(r"a backslash at the end: a backslash itself is written \\".to_owned()),
        };
        into.push(byte);
        rest = &rest[used..];
    }
    into.extend_from_slice(rest);
    Ok(())
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Append key and value, escaped, without a newline.
pub fn write(key: &[u8], value: Option<&[u8]>, line: &mut Vec<u8>) {
    escape(key, line);
    if let Some(value) = value {
        line.push(b'\t');
        escape(value, line);
    }
}

/// Append `bytes` with what must be escaped escaped.
pub fn escape(bytes: &[u8], into: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid().as_bytes();
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\t' | b'\n' | b'\\')) {
            into.extend_from_slice(&rest[..at]);
            into.extend_from_slice(match rest[at] {
                b'\t' => br"\t",
                b'\n' => br"\n",
                _ => br"\\",
            });
            rest = &rest[at + 1..];
        }
        into.extend_from_slice(rest);
        for byte in chunk.invalid() {
            into.extend_from_slice(format!(r"\x{byte:02x}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(bytes: &[u8]) -> String {
        let mut text = Vec::new();
        escape(bytes, &mut text);
        String::from_utf8(text).expect("escaped text is UTF-8")
    }

    fn unescaped(text: &str) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        unescape(text.as_bytes(), &mut bytes).map(|()| bytes)
    }

    #[test]
    fn only_tab_newline_backslash_and_broken_utf8_are_escaped() {
        assert_eq!(escaped(b"a\tb\nc\\d"), r"a\tb\nc\\d");
        assert_eq!(escaped("Größe \u{1f600}\r\0\u{7f}".as_bytes()), "Größe \u{1f600}\r\0\u{7f}");
        assert_eq!(escaped(b"\xff\xc3a\xe2\x82"), r"\xff\xc3a\xe2\x82");
    }

    #[test]
    fn escapes_are_read_and_others_refused() {
        assert_eq!(unescaped(r"a\tb\nc\\d\x00\xFf"), Ok(b"a\tb\nc\\d\x00\xff".to_vec()));
        for bad in [r"\", r"a\q", r"\x", r"\x4", r"\xg0", r"\x 1", r"\N"] {
            assert!(unescaped(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_first_tab_ends_the_key() {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        read(b"k\tv\tw", &mut key, &mut value).expect("a record");
        assert_eq!((&key[..], &value[..]), (&b"k"[..], &b"v\tw"[..]));
        assert!(read(b"no tab", &mut key, &mut value).is_err());
    }

    proptest! {
        #[test]
        fn any_record_comes_back_from_its_line(
            key in proptest::collection::vec(any::<u8>(), 0..40),
            value in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\\'), Just(b'\t'), Just(0xc3)], 0..80),
        ) {
            let mut line = Vec::new();
            write(&key, Some(&value), &mut line);
            prop_assert!(std::str::from_utf8(&line).is_ok());
            prop_assert!(!line.contains(&b'\n'));
            let (mut k, mut v) = (Vec::new(), Vec::new());
            read(&line, &mut k, &mut v).expect("what was written can be read");
            prop_assert_eq!((k, v), (key, value));
        }

        #[test]
        fn arbitrary_lines_never_panic(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(&line, &mut Vec::new(), &mut Vec::new());
        }
    }
}
