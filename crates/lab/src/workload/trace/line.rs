//! One line of a trace.

use biombo_engine::capabilities::KEY_BYTES_MAX;

use crate::workload::OpKind;

/// One recorded operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// A read, an update or a scan.
    pub kind: OpKind,
    /// The key, or where a scan begins.
    pub key: &'a [u8],
    /// Records to read, for a scan; 0 otherwise.
    pub limit: u32,
}

/// The operation that `line`, without its end, stands for; else what is wrong with it and what is right.
pub fn parse(line: &[u8]) -> Result<Line<'_>, String> {
    if line.is_empty() {
        return Err("the line is empty: each line is `0,key`, `1,key` or `2,key,limit`".to_owned());
    }
    let mut fields = line.split(|byte| *byte == b',');
    let (operation, key, limit, more) = (fields.next(), fields.next(), fields.next(), fields.next());
    let (kind, form) = match operation {
        Some(b"0") => (OpKind::Read, "0,key"),
        Some(b"1") => (OpKind::Update, "1,key"),
        Some(b"2") => (OpKind::Scan, "2,key,limit"),
        other => {
            let other = shown(other.unwrap_or_default());
            return Err(format!("the operation `{other}` is none of 0 (read), 1 (write), 2 (scan)"));
        }
    };
    let key = match key {
        Some(key) if !key.is_empty() => key,
        _ => return Err(format!("the key is missing: write `{form}`")),
    };
    if key.len() > KEY_BYTES_MAX {
        return Err(format!("the key has {} bytes: a key has at most {KEY_BYTES_MAX}", key.len()));
    }
    let limit = match (kind, limit, more) {
        (OpKind::Scan, Some(limit), None) => std::str::from_utf8(limit)
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|limit| *limit > 0)
            .ok_or_else(|| format!("the limit `{}` is no number from 1 to {}", shown(limit), u32::MAX))?,
        (OpKind::Scan, None, _) => return Err("the limit of the scan is missing: write `2,key,limit`".to_owned()),
        (OpKind::Read | OpKind::Update, None, _) => 0,
        _ => return Err(format!("there are too many fields: write `{form}`, and no comma in a key")),
    };
    Ok(Line { kind, key, limit })
}

/// The beginning of a field, so that a message stays one line.
fn shown(field: &[u8]) -> String {
    const SHOWN: usize = 20;
    let end = if field.len() > SHOWN { ".." } else { "" };
    format!("{}{end}", field[..field.len().min(SHOWN)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read() {
        let line = |text: &'static str| parse(text.as_bytes()).unwrap();
        assert_eq!(line("0,user17"), Line { kind: OpKind::Read, key: b"user17", limit: 0 });
        assert_eq!(line("1,17"), Line { kind: OpKind::Update, key: b"17", limit: 0 });
        assert_eq!(line("2,a b,100"), Line { kind: OpKind::Scan, key: b"a b", limit: 100 });
        assert_eq!(parse(b"0,\xff\x00").unwrap().key, b"\xff\x00");
    }

    #[test]
    fn each_fault_is_told_with_what_is_right() {
        let long = [b"0,".as_slice(), &vec![b'k'; KEY_BYTES_MAX + 1]].concat();
        let faults: [(&[u8], &str); 14] = [
            (b"", "is empty"),
            (b"3,key", "`3` is none of 0 (read), 1 (write), 2 (scan)"),
            (b"read,key", "`read` is none"),
            (b"00,key", "`00` is none"),
            (b"an operation of many words\x07", "`an operation of many..` is none"),
            (b"0", "write `0,key`"),
            (b"1,", "write `1,key`"),
            (b"2,,5", "write `2,key,limit`"),
            (b"0,a,b", "too many fields: write `0,key`"),
            (b"2,a,5,6", "too many fields: write `2,key,limit`"),
            (b"2,a", "the limit of the scan is missing"),
            (b"2,a,x", "`x` is no number"),
            (b"2,a,0", "`0` is no number from 1"),
            (&long, "65537 bytes"),
        ];
        for (line, said) in faults {
            let error = parse(line).unwrap_err();
            assert!(error.contains(said) && !error.contains('\n'), "{error}");
        }
    }
}
