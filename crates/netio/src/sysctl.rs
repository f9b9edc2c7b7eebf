//! Kernel settings under /proc/sys. Those of `net` are the *calling thread's* network namespace's: the kernel looks
//! them up through the thread that opens the file, so no /proc of the namespace is needed.

use crate::error::{Error, IoContext, Result};
use std::path::PathBuf;

/// The value of `name`, slashes or dots between its parts (`net/ipv4/conf/rvl0/rp_filter`); slashes are needed where a
/// device's name has a dot. White space at the end is cut.
pub fn get(name: &str) -> Result<String> {
    let path = path(name)?;
    let value = std::fs::read_to_string(&path).doing(|| format!("reading {}", path.display()))?;
    Ok(value.trim_end().to_owned())
}

/// Set `name` to `value`.
pub fn set(name: &str, value: impl std::fmt::Display) -> Result<()> {
    let path = path(name)?;
    std::fs::write(&path, format!("{value}\n")).doing(|| format!("writing {value} to {}", path.display()))
}

/// Set `name` to `value` and answer what it was; no write if it is that already.
pub fn replace(name: &str, value: impl std::fmt::Display) -> Result<String> {
    let before = get(name)?;
    if before != value.to_string() {
        set(name, value)?;
    }
    Ok(before)
}

fn path(name: &str) -> Result<PathBuf> {
    let relative = if name.contains('/') { name.to_owned() } else { name.replace('.', "/") };
    if relative.starts_with('/') || relative.split('/').any(|part| part.is_empty() || part == "..") {
        return Err(Error::unfit(
            format!("`{name}` is no kernel setting"),
            "write it as net/ipv4/ip_forward",
        ));
    }
    Ok(PathBuf::from("/proc/sys").join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_and_slashes_name_the_same_setting() {
        assert_eq!(get("kernel.ostype").unwrap(), "Linux");
        assert_eq!(get("kernel/ostype").unwrap(), "Linux");
    }

    #[test]
    fn names_cannot_leave_the_tree() {
        for name in ["/etc/passwd", "net/../../etc/passwd", "net//ipv4", "..", ""] {
            assert!(matches!(get(name), Err(Error::Unfit { .. })), "{name}");
        }
    }
}
