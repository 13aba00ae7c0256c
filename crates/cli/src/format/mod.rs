//! Keys and values as text, one record a line: `tsv`, `jsonl`, `lines`.

pub mod jsonl;
pub mod tsv;

use clap::ValueEnum;

/// How a line holds a record on input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum InputFormat {
    /// key TAB value, with the escapes \t \n \\ \xHH
    #[default]
    Tsv,
    /// {"key":"..","value":".."} a line; bytes that are no text as key_hex, value_hex
    Jsonl,
    /// the whole line is the key, its number the value
    Lines,
}

/// How a record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OutputFormat {
    /// key TAB value; tab, newline, backslash and bytes that are no UTF-8 are escaped
    #[default]
    Tsv,
    /// {"key":"..","value":".."} a line; bytes that are no UTF-8 as key_hex, value_hex
    Jsonl,
}

impl InputFormat {
    /// Read a line (without its newline) into `key` and `value`, which are cleared first. `number` counts from 1. The error
    /// says what is wrong with the line and how it should be.
    pub fn read(self, line: &[u8], number: u64, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<(), String> {
        key.clear();
        value.clear();
        match self {
            Self::Tsv => tsv::read(line, key, value),
            Self::Jsonl => jsonl::read(line, key, value),
            Self::Lines => {
                key.extend_from_slice(line);
                value.extend_from_slice(number.to_string().as_bytes());
                Ok(())
            }
        }
    }
}

impl OutputFormat {
    /// Append the record as a line, its newline included; without a value only the key.
    pub fn write(self, key: &[u8], value: Option<&[u8]>, line: &mut Vec<u8>) {
        match self {
            Self::Tsv => tsv::write(key, value, line),
            Self::Jsonl => jsonl::write(key, value, line),
        }
        line.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_names_the_formats_of_the_command_line() {
        let names: Vec<String> = InputFormat::value_variants()
            .iter()
            .filter_map(|format| Some(format.to_possible_value()?.get_name().to_owned()))
            .collect();
        assert_eq!(names, biombo::Config::FORMATS);
    }
}
