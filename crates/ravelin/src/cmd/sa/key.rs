//! Keys on their way from a descriptor to a request, never from an argument.

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Read};

use anyhow::Context;
use api::Keymat;
use zeroize::Zeroizing;

use crate::exit::Failure;

/// Keying material from a descriptor: at most a few hundred digits, into memory that is wiped.
pub(super) fn read(fd: u32) -> anyhow::Result<Keymat> {
    const MOST: u64 = 1024;
    let mut text = Zeroizing::new(String::with_capacity(MOST as usize + 1));
    let mut read = |source: &mut dyn Read| source.take(MOST + 1).read_to_string(&mut text);
    match fd {
        0 if std::io::stdin().is_terminal() => {
            return Err(Failure::bad_input(
                "standard input is a terminal, which would show the key; pipe it in, or use --key-fd N N<FILE",
            ));
        }
        0 => read(&mut std::io::stdin().lock()).context("reading the key from standard input")?,
        _ => {
            let path = format!("/proc/self/fd/{fd}");
            let mut file = File::open(&path).map_err(|error| {
                Failure::bad_input(format!(
                    "descriptor {fd} cannot be read ({error}); open one, as in: {fd}< <(...)"
                ))
            })?;
            read(&mut file).with_context(|| format!("reading the key from descriptor {fd}"))?
        }
    };
    if text.len() as u64 > MOST {
        return Err(Failure::bad_input(format!(
            "descriptor {fd} gives more than {MOST} octets: that is no key"
        )));
    }
    Ok(Keymat::new(std::mem::take(&mut *text)))
}

/// Whether it can be one; `fd` is where it came from.
pub(super) fn check(keymat: &Keymat, fd: u32) -> anyhow::Result<()> {
    keymat
        .octets()
        .map(drop)
        .map_err(|error| Failure::bad_input(format!("{error}; descriptor {fd} must give hexadecimal digits")))
}

/// Refuse a key among the arguments before anything could print it: every user may read them (`ps`).
pub fn no_key_in_arguments(args: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let args: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    let of_sa =
        args.iter().any(|a| a == "sa") && args.iter().any(|a| ["add", "replace"].contains(&a.as_str()));
    if of_sa && args.iter().any(|arg| looks_like_a_key(arg)) {
        return Err(Failure::bad_input(
            "a key on the command line is visible to every user of this host: do not use it any more. Make a new one \
             and give it through a descriptor: ravelin sa add ... --key-fd 0 < KEYFILE",
        ));
    }
    Ok(())
}

fn looks_like_a_key(arg: &str) -> bool {
    let value = arg.rsplit('=').next().unwrap_or(arg);
    let digits = value.strip_prefix("0x").unwrap_or(value);
    digits.len() >= 32 && digits.bytes().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_among_the_arguments_is_refused_and_not_repeated() {
        let key = "000102030405060708090a0b0c0d0e0f10111213";
        for args in [
            vec!["sa", "add", key],
            vec!["sa", "add", "--key", key],
            vec!["sa", "add", "--keymat=000102030405060708090a0b0c0d0e0f10111213"],
        ] {
            let refused = no_key_in_arguments(args.into_iter().map(OsString::from)).unwrap_err().to_string();
            assert!(!refused.contains("0102"), "{refused}");
        }
        let fine = ["sa", "add", "--local", "2001:db8:1111:2222:3333:4444:5555:6666", "--spi", "0xffffffff"];
        no_key_in_arguments(fine.into_iter().map(OsString::from)).unwrap();
    }
}
