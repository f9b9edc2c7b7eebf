//! Where file systems are mounted (/proc/self/mountinfo, proc_pid_mountinfo(5)).

use crate::error::{IoContext, Result};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Mount points of file systems of type `kind` that show the root of that file system, in order.
pub(crate) fn roots_of(kind: &str) -> Result<Vec<PathBuf>> {
    let path = "/proc/self/mountinfo";
    let text = std::fs::read(path).doing(|| format!("reading {path}"))?;
    Ok(parse(&text, kind))
}

/// Fields: id, parent, device, root, mount point, options, optional fields, "-", type, source, options.
fn parse(text: &[u8], kind: &str) -> Vec<PathBuf> {
    let line = |line: &[u8]| {
        let mut fields = line.split(|&c| c == b' ');
        let root = fields.nth(3)?;
        let point = fields.next()?;
        let file_system = fields.skip_while(|f| *f != b"-").nth(1)?;
        (file_system == kind.as_bytes() && root == b"/").then(|| unescape(point))
    };
    text.split(|&c| c == b'\n').filter_map(line).collect()
}

/// Space, tab, newline and backslash stand as \ooo.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|d| first == b'\\' && d.iter().all(|c| (b'0'..=b'7').contains(c)));
        match octal {
            Some(digits) => {
                out.push(digits.iter().fold(0u8, |n, d| (n << 3) | (d - b'0')));
                rest = &tail[3..];
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_roots_by_type_and_unescapes() {
        let text = b"25 20 0:22 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro\n\
            31 25 0:27 / /sys/fs/cgroup/uni\\040fied rw shared:9 master:1 - cgroup2 cgroup2 rw\n\
            32 25 0:27 /sub /mnt/part rw - cgroup2 cgroup2 rw\n\
            33 25 0:28 / /mnt rw - cgroup2\n\
            nonsense\n";
        assert_eq!(parse(text, "cgroup2"), [PathBuf::from("/sys/fs/cgroup/uni fied"), PathBuf::from("/mnt")]);
        assert!(parse(text, "bpf").is_empty());
    }
}
