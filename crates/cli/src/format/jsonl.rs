//! One JSON object a line: `{"key":"apple","value":"red"}`.
//!
//! JSON strings are text. A key or value that is not valid UTF-8 stands as `key_hex` or `value_hex`, two hexadecimal digits a
//! byte; on input either form is taken, and every other field is refused.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A record, or a key alone, as JSON.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Record<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    key_hex: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    value: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    value_hex: Option<Cow<'a, str>>,
}

impl<'a> Record<'a> {
    /// Of a key and, where wanted, its value.
    pub fn new(key: &'a [u8], value: Option<&'a [u8]>) -> Self {
        let (key, key_hex) = text_or_hex(Some(key));
        let (value, value_hex) = text_or_hex(value);
        Self { key, key_hex, value, value_hex }
    }
}

fn text_or_hex(bytes: Option<&[u8]>) -> (Option<Cow<'_, str>>, Option<Cow<'_, str>>) {
    let Some(bytes) = bytes else { return (None, None) };
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.into()), None),
        Err(_) => (None, Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())),
    }
}

/// Read a line.
pub fn read(line: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<(), String> {
    // A list of fields would be taken for the object.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(r#"no JSON object: expected {"key":"..","value":".."}"#.to_owned());
    }
    let record: Record<'_> = serde_json::from_slice(line).map_err(|e| {
        let reason = e.to_string();
        // The line number of the parser counts within this one line.
        let reason = reason.rsplit_once(" at line ").map_or(&*reason, |(reason, _)| reason).to_owned();
        // It quotes what stands in the line; an error is one line.
        let reason = reason.replace(char::is_control, "?");
        format!("{reason}, at byte {}: expected {{\"key\":\"..\",\"value\":\"..\"}}", e.column())
    })?;
    take("key", record.key, record.key_hex, key)?;
    take("value", record.value, record.value_hex, value)
}

fn take(name: &str, text: Option<Cow<'_, str>>, hex: Option<Cow<'_, str>>, into: &mut Vec<u8>) -> Result<(), String> {
    match (text, hex) {
        (Some(text), None) => into.extend_from_slice(text.as_bytes()),
        (None, Some(hex)) => {
            let pairs = hex.as_bytes().chunks(2).map(|pair| {
                let digits =
                    std::str::from_utf8(pair).ok().filter(|d| d.len() == 2 && d.bytes().all(|b| b.is_ascii_hexdigit()));
                digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())
            });
            for byte in pairs {
                into.push(byte.ok_or_else(|| format!("{name}_hex must be two hexadecimal digits for each byte"))?);
            }
        }
        (None, None) => {
            return Err(format!("no {name}: give \"{name}\", or \"{name}_hex\" for bytes that are no text"));
        }
        (Some(_), Some(_)) => return Err(format!("both {name} and {name}_hex: give one")),
    }
    Ok(())
}

/// Append the record as JSON, without a newline.
pub fn write(key: &[u8], value: Option<&[u8]>, line: &mut Vec<u8>) {
    serde_json::to_writer(line, &Record::new(key, value))
        .expect("invariant: strings serialise, and a vector takes all bytes");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(line: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        read(line.as_bytes(), &mut key, &mut value).map(|()| (key, value))
    }

    #[test]
    fn text_and_hex_are_read() {
        assert_eq!(parsed(r#"{"key":"a\n","value":""}"#), Ok((b"a\n".to_vec(), vec![])));
        assert_eq!(parsed(r#" {"value_hex":"00fF", "key_hex":"61"} "#), Ok((b"a".to_vec(), vec![0, 255])));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for bad in [
            "",
            "{",
            "[]",
            r#"["a",null,"b",null]"#,
            r#"{"key":"a"}"#,
            r#"{"value":"a"}"#,
            r#"{"key":1,"value":"a"}"#,
            r#"{"key":"a","value":"b","more":1}"#,
            r#"{"key\n":"a","value":"b"}"#,
            r#"{"key":"a","key_hex":"61","value":"b"}"#,
            r#"{"key_hex":"6","value":"b"}"#,
            r#"{"key_hex":"+1","value":"b"}"#,
            r#"{"key":"a","value":"b"} {}"#,
        ] {
            let error = parsed(bad).expect_err(bad);
            assert!(!error.contains("at line") && !error.contains(char::is_control), "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn any_record_comes_back_from_its_line(
            key in proptest::collection::vec(any::<u8>(), 0..20),
            value in prop_oneof![proptest::collection::vec(any::<u8>(), 0..20), ".*".prop_map(String::into_bytes)],
        ) {
            let mut line = Vec::new();
            write(&key, Some(&value), &mut line);
            prop_assert!(!line.contains(&b'\n'));
            let (mut k, mut v) = (Vec::new(), Vec::new());
            read(&line, &mut k, &mut v).expect("what was written can be read");
            prop_assert_eq!((k, v), (key, value));
        }
    }
}
