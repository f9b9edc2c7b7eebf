//! Address ranges, ports and names as the language writes them.

use std::net::IpAddr;

use sadb::spd::PortRange;

use crate::ast::AddressRange;
use crate::diagnostic::{Code, show};

/// The fault of a value: its code, a message, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: Code,
    pub message: String,
    pub help: String,
}

fn fault(code: Code, message: String, help: impl Into<String>) -> Fault {
    Fault { code, message, help: help.into() }
}

/// Parses `ADDRESS`, `ADDRESS/LENGTH`, `ADDRESS-ADDRESS` or a host name.
pub fn address_range(text: &str) -> Result<AddressRange, Fault> {
    if let Some((addr, len)) = text.split_once('/') {
        return prefix(address(addr)?, addr, len);
    }
    if let Some((first, last)) = text.split_once('-')
        && is_numeric(first)
    {
        return range(address(first)?, address(last)?);
    }
    if is_numeric(text) {
        return address(text).map(AddressRange::Single);
    }
    host(text)
}

/// Whether `text` can only be meant as an address. A name has no colon and is not all digits and dots.
fn is_numeric(text: &str) -> bool {
    text.contains(':') || (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn address(text: &str) -> Result<IpAddr, Fault> {
    if let Ok(addr) = text.parse::<IpAddr>() {
        return Ok(addr.to_canonical());
    }
    let message = format!("`{}` is not an IP address", show(text));
    let help = if text.contains('%') {
        "an interface after `%` cannot be given; write the address alone"
    } else if text.contains(':') {
        "an IPv6 address is eight groups of up to four hex digits, `::` for one run of zeros, as 2001:db8::1"
    } else {
        "an IPv4 address is four numbers from 0 to 255 without leading zeros, as 192.0.2.1"
    };
    Err(fault(Code::BadAddress, message, help))
}

fn prefix(addr: IpAddr, written: &str, len: &str) -> Result<AddressRange, Fault> {
    let max = if addr.is_ipv4() { 32 } else { 128 };
    if !len.is_empty() && len.chars().all(|c| c.is_ascii_digit()) {
        // An IPv4 address written as ::ffff:a.b.c.d counts its length in the IPv6 form.
        let mapped = addr.is_ipv4() && written.contains(':');
        let shift = if mapped { 96 } else { 0 };
        return match len.parse::<u8>() {
            Ok(n) if mapped && n < shift => Err(fault(
                Code::BadAddress,
                format!("`{}/{}` covers IPv4 and part of IPv6", show(written), show(len)),
                "write the IPv4 network in IPv4 form, and the IPv6 network on a line of its own",
            )),
            Ok(n) if n <= max + shift => Ok(AddressRange::Prefix(addr, n - shift)),
            _ => Err(fault(
                Code::PrefixTooLong,
                format!("prefix length {} is out of range", show(len)),
                format!("a prefix length for this address is 0 to {}", max + shift),
            )),
        };
    }
    let message = format!("`{}` is not a prefix length", show(len));
    let help = match len.parse::<std::net::Ipv4Addr>().map(u32::from) {
        Ok(mask) if addr.is_ipv4() && mask.leading_ones() + mask.trailing_zeros() >= 32 => {
            format!("write the mask {len} as /{}", mask.leading_ones())
        }
        _ => format!("write a number from 0 to {max} after the slash"),
    };
    Err(fault(Code::BadAddress, message, help))
}

fn range(first: IpAddr, last: IpAddr) -> Result<AddressRange, Fault> {
    if first.is_ipv4() != last.is_ipv4() {
        return Err(fault(
            Code::MixedFamilies,
            format!("a range cannot run from {first} to {last}"),
            "give both ends as IPv4 or both as IPv6; write two network settings for both families",
        ));
    }
    if first > last {
        return Err(fault(
            Code::ReversedRange,
            format!("the range starts at {first}, above its end {last}"),
            format!("write the lower address first: {last}-{first}"),
        ));
    }
    Ok(AddressRange::Range(first, last))
}

fn host(text: &str) -> Result<AddressRange, Fault> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let label_ok = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if matches!(name, "any" | "all") {
        return Err(fault(
            Code::BadHost,
            format!("`{name}` is not a network"),
            "for every peer write two lines: `network 0.0.0.0/0 TYPE;` and `network ::/0 TYPE;`",
        ));
    }
    if name.len() <= 253 && name.split('.').all(label_ok) {
        return Ok(AddressRange::Host(name.to_ascii_lowercase()));
    }
    Err(fault(
        Code::BadHost,
        format!("`{}` is neither an address nor a host name", show(text)),
        "write an address (192.0.2.1, 2001:db8::1), a prefix (192.0.2.0/24), a range \
         (192.0.2.1-192.0.2.9) or a host name (www.example.com)",
    ))
}

/// Parses a port, a range of ports `FIRST-LAST`, or `any`. `None` if it is not meant as a port at all.
pub fn ports(text: &str) -> Option<Result<PortRange, Fault>> {
    if text == "any" {
        return Some(Ok(PortRange::ANY));
    }
    let (first, last) = match text.split_once('-') {
        Some((first, last)) if !first.is_empty() => (first, last),
        _ => (text, text),
    };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let meant = text.strip_prefix('-').is_some_and(digits) || (digits(first) && digits(last));
    if !meant {
        return None;
    }
    let (Ok(low), Ok(high)) = (first.parse::<u16>(), last.parse::<u16>()) else {
        return Some(Err(fault(
            Code::PortOutOfRange,
            format!("port `{}` is out of range", show(text)),
            "a port is a number from 0 to 65535, or `any`",
        )));
    };
    if low > high {
        return Some(Err(fault(
            Code::ReversedPorts,
            format!("the port range starts at {low}, above its end {high}"),
            format!("write the lower port first: {high}-{low}"),
        )));
    }
    Some(Ok(PortRange { first: low, last: high }))
}

/// Checks that `text` can name an application: a bare file name, or a whole path in plain form.
pub fn application_name(text: &str) -> Result<(), Fault> {
    let bad = |what: &str, help: &str| {
        Err(fault(Code::BadName, format!("`{}` {what}", show(text)), help.to_string()))
    };
    if text.is_empty() {
        return bad("is an empty application name", "write the program's name, or its whole path");
    }
    if text.chars().any(char::is_control) {
        return bad("holds a control character", "write the name as `ls` prints it");
    }
    let Some(components) = text.strip_prefix('/') else {
        return match text {
            _ if text.contains('/') => bad(
                "is a path that does not start at the root",
                "write the whole path, or the bare file name for every program of that name",
            ),
            "." | ".." => bad("is a directory", "write the program's name, or its whole path"),
            _ if text.len() > 255 => bad("is too long for a file name", "a file name has at most 255 octets"),
            _ => Ok(()),
        };
    };
    if text.len() > 4095 {
        return bad("is too long for a path", "a path has at most 4095 octets");
    }
    if components.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return bad(
            "is not a path in plain form",
            "write the path of the program's file without `//`, `.`, `..` or a slash at its end",
        );
    }
    Ok(())
}
