//! System calls out of the text that `strace -f -y -o FILE` writes.
//!
//! Only the order of lines is used, not the clock: strace stops a thread at the entry and at the exit of each call, so a
//! call that is printed on one line began and ended there, and one that others overtook has an `<unfinished ...>` line
//! where it began and a `resumed` line where it ended.

use std::collections::HashMap;

/// One finished system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The line on which it began.
    pub begun: usize,
    /// The line on which it ended.
    pub done: usize,
    /// Such as `pwrite64`.
    pub name: String,
    /// What stands between the parentheses.
    pub args: String,
    /// What it returned; negative: it failed.
    pub result: i64,
}

/// All finished calls, by the line on which they ended.
pub fn parse(trace: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut pending: HashMap<&str, (usize, &str, String)> = HashMap::new();
    for (line, text) in trace.lines().enumerate() {
        let Some((thread, rest)) = text.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some((begun, name, mut args)) = pending.remove(thread) else { continue };
            let Some((_, tail)) = resumed.split_once(" resumed>") else { continue };
            let (more, result) = finish(tail);
            args.push_str(more);
            calls.extend(result.map(|result| Call { begun, done: line, name: name.to_owned(), args, result }));
            continue;
        }
        let Some((name, tail)) = rest.split_once('(') else { continue };
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        if let Some(args) = tail.strip_suffix("<unfinished ...>") {
            pending.insert(thread, (line, name, args.to_owned()));
            continue;
        }
        let (args, result) = finish(tail);
        let call = |result| Call { begun: line, done: line, name: name.to_owned(), args: args.to_owned(), result };
        calls.extend(result.map(call));
    }
    calls
}

/// Cut `args) = result ...` in two; without a result (the thread ended in the call) there is none.
fn finish(tail: &str) -> (&str, Option<i64>) {
    // The last one: a string argument may hold the same characters, the text of an error may not.
    let Some(at) = tail.rfind(") = ").or_else(|| tail.rfind(')').filter(|at| tail[*at..].contains(" = "))) else {
        return (tail, None);
    };
    let (args, result) = tail.split_at(at);
    let result = result[1..].trim_start().trim_start_matches("= ");
    let number: String = result.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let number = match number.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).map(|n| n as i64).ok(),
        None => number.parse().ok(),
    };
    (args, number)
}

impl Call {
    /// The argument at `index`, cut at commas outside of strings, brackets and paths.
    pub fn arg(&self, index: usize) -> &str {
        let mut quoted = false;
        let mut depth = 0;
        let (mut start, mut found) = (0, 0);
        let bytes = self.args.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            match bytes[i] {
                b'\\' if quoted => i += 1,
                b'"' => quoted = !quoted,
                b'[' | b'{' | b'<' if !quoted => depth += 1,
                b']' | b'}' | b'>' if !quoted => depth -= 1,
                b',' if !quoted && depth == 0 => {
                    if found == index {
                        return self.args[start..i].trim();
                    }
                    found += 1;
                    start = i + 1;
                }
                _ => {}
            }
            i += 1;
        }
        if found == index { self.args[start..].trim() } else { "" }
    }

    /// The file descriptor and path of an argument such as `5</dir/file>`.
    pub fn file(&self, index: usize) -> Option<(i64, &str)> {
        let (number, path) = self.arg(index).split_once('<')?;
        let path = path.strip_suffix("(deleted)").unwrap_or(path);
        Some((number.parse().ok()?, path.strip_suffix('>')?))
    }

    /// A number, decimal or hexadecimal.
    pub fn number(&self, index: usize) -> Option<u64> {
        let text = self.arg(index);
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_unfinished_and_failed_calls_are_read() {
        let calls = parse(concat!(
            "11  openat(AT_FDCWD</>, \"/d/a, b\", O_RDWR|O_CREAT, 0664) = 5</d/a, b>\n",
            "11  pwrite64(5</d/a, b>, \"x) = 9, \\\"y\", 12, 0 <unfinished ...>\n",
            "12  fsync(6</d>) = -1 EIO (Input/output error)\n",
            "11  <... pwrite64 resumed>) = 12\n",
            "12  mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 5</d/a, b>, 0) = 0x7f00\n",
            "12  --- SIGCHLD {si_signo=SIGCHLD} ---\n",
            "12  exit_group(0) = ?\n",
            "12  +++ exited with 0 +++\n",
        ));
        assert_eq!(calls.len(), 4, "{calls:#?}");
        assert_eq!((calls[0].result, calls[0].arg(2)), (5, "O_RDWR|O_CREAT"));
        assert_eq!((calls[1].name.as_str(), calls[1].result), ("fsync", -1));
        let write = &calls[2];
        assert_eq!((write.begun, write.done, write.result), (1, 3, 12));
        assert_eq!(write.file(0), Some((5, "/d/a, b")));
        assert_eq!(write.arg(1), "\"x) = 9, \\\"y\"");
        assert_eq!(write.arg(2), "12");
        assert_eq!((calls[3].result, calls[3].number(1)), (0x7f00, Some(4096)));
    }
}
