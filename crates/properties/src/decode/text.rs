//! Lines of `biombo load`: what is read is written back, in both formats, as a line that reads the same.

use biombo_cli::format::{InputFormat, OutputFormat};

use crate::Property;

/// A byte that says the format, then a line.
pub const PROPERTY: Property = Property { name: "text_lines", holds, examples, cases: 2000 };

fn holds(data: &[u8]) {
    let Some((&choice, line)) = data.split_first() else { return };
    let format = [InputFormat::Tsv, InputFormat::Jsonl, InputFormat::Lines][usize::from(choice) % 3];
    let (mut key, mut value) = (b"what was there".to_vec(), b"before".to_vec());
    if let Err(reason) = format.read(line, 7, &mut key, &mut value) {
        assert!(!reason.is_empty() && !reason.contains('\n'), "a reason is one line: {reason:?}");
        return;
    }
    for (written, read) in [(OutputFormat::Tsv, InputFormat::Tsv), (OutputFormat::Jsonl, InputFormat::Jsonl)] {
        let mut line = Vec::new();
        written.write(&key, Some(&value), &mut line);
        assert_eq!(line.pop(), Some(b'\n'));
        assert!(!line.contains(&b'\n') && std::str::from_utf8(&line).is_ok(), "{line:?}");
        let (mut key_again, mut value_again) = (Vec::new(), Vec::new());
        read.read(&line, 1, &mut key_again, &mut value_again).expect("what was written can be read");
        assert_eq!((&key_again, &value_again), (&key, &value));
    }
}

fn examples() -> Vec<Vec<u8>> {
    let lines: [(u8, &[u8]); 6] = [
        (0, br"key\t\x00	value\\\n"),
        (0, b"k\xff\xc3\ta\tb"),
        (1, br#"{"key":"a\n\u00e9","value":""}"#),
        (1, br#"{"key_hex":"00ff","value":"\ud83d\ude00"}"#),
        (1, br#" {"value_hex":"", "key":"a"} "#),
        (2, b"the whole line\r"),
    ];
    lines.map(|(format, line)| [&[format], line].concat()).to_vec()
}
