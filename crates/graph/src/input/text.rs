//! Edges as text: one line an edge, `source destination`, and perhaps more numbers, which are left out.
//!
//! What SNAP distributes, `.el`, `.wel` (a weight), `.tel` (a time): fields stand apart by blanks, tabs or a comma; lines that begin with
//! `#` or `%` are comments; empty lines are passed over; lines end with `\n` or `\r\n`.

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadLine(pub(super) String);

/// The edge of a line; `None` where it has none (a comment, an empty line).
pub(super) fn edge(line: &[u8]) -> Result<Option<(u64, u64)>, BadLine> {
    let mut fields = Fields(line);
    let Some(first) = fields.next() else { return Ok(None) };
    if is_comment(first) {
        return Ok(None);
    }
    let source = id(first)?;
    let Some(second) = fields.next() else {
        return Err(BadLine(format!("there is one id, {source}, where an edge has two")));
    };
    let destination = id(second)?;
    numbers(fields)?;
    Ok(Some((source, destination)))
}

/// How many fields are left, all of which are numbers.
pub(super) fn numbers(fields: Fields<'_>) -> Result<usize, BadLine> {
    let mut count = 0;
    for more in fields {
        let number = std::str::from_utf8(more).ok().and_then(|text| {
            // Fortran writes 1.0D+00.
            text.parse::<f64>().or_else(|_| text.replacen(['d', 'D'], "e", 1).parse()).ok()
        });
        if number.is_none() {
            return Err(BadLine(format!("`{}` behind the two ids is no number", shown(more))));
        }
        count += 1;
    }
    Ok(count)
}

/// Whether a first field begins a comment.
pub(super) fn is_comment(field: &[u8]) -> bool {
    matches!(field.first(), Some(b'#' | b'%'))
}

/// The fields of a line.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b',')
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let begin = self.0.iter().position(|byte| !is_blank(*byte))?;
        let rest = &self.0[begin..];
        let end = rest.iter().position(|byte| is_blank(*byte)).unwrap_or(rest.len());
        self.0 = &rest[end..];
        Some(&rest[..end])
    }
}

/// A vertex id: a number from 0 to 2^64 - 1.
pub(super) fn id(field: &[u8]) -> Result<u64, BadLine> {
    let mut value = 0u64;
    for byte in field {
        if !byte.is_ascii_digit() {
            return Err(refused(field));
        }
        let more = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(byte - b'0')));
        value = more.ok_or_else(|| BadLine(format!("the id {} is larger than 2^64 - 1", shown(field))))?;
    }
    Ok(value)
}

/// Why a field is no id.
fn refused(field: &[u8]) -> BadLine {
    let is_negative = field.len() > 1 && field[0] == b'-' && field[1..].iter().all(u8::is_ascii_digit);
    BadLine(if is_negative {
        format!("the id {} is negative; ids are whole numbers from 0", shown(field))
    } else {
        format!("`{}` is no vertex id; ids are whole numbers from 0", shown(field))
    })
}

/// A field for a message: printable, and not too long.
fn shown(field: &[u8]) -> String {
    let (part, more) = if field.len() > 40 { (&field[..40], "..") } else { (field, "") };
    format!("{}{more}", part.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_read_in_every_usual_dress() {
        for line in ["1 2", "1\t2", " 1  2 ", "1 2\r", "1 2 1254192988", "1\t2\t-0.5", "1,2", "01 002"] {
            assert_eq!(edge(line.as_bytes()), Ok(Some((1, 2))), "{line:?}");
        }
        for line in ["", "  ", "\r", "# Nodes: 7 Edges: 8", "#", "% x", "  # 1 2"] {
            assert_eq!(edge(line.as_bytes()), Ok(None), "{line:?}");
        }
        assert_eq!(edge(b"18446744073709551615 4294967296"), Ok(Some((u64::MAX, 1 << 32))));
    }

    #[test]
    fn what_is_no_edge_is_refused_and_said() {
        for (line, said) in [
            ("1", "one id, 1"),
            ("-1 2", "-1 is negative"),
            ("1 -2", "-2 is negative"),
            ("18446744073709551616 2", "larger than 2^64 - 1"),
            ("1 99999999999999999999999", "larger than 2^64 - 1"),
            ("a 2", "`a` is no vertex id"),
            ("1.5 2", "`1.5` is no vertex id"),
            ("1 2 x", "`x` behind the two ids"),
            ("+1 2", "`+1` is no vertex id"),
            ("1 \u{1}\u{ff}", r"`\x01\xc3\xbf` is no vertex id"),
            ("- 2", "`-` is no vertex id"),
        ] {
            let error = edge(line.as_bytes()).expect_err(line);
            assert!(error.0.contains(said), "{line:?}: {}", error.0);
        }
        let long = "x".repeat(1000);
        assert!(edge(long.as_bytes()).expect_err("refused").0.len() < 120);
    }
}
