//! `ravelin policy names`: what the daemon knows of the host names in its policy.

use std::fmt::Write;
use std::net::IpAddr;

use api::{NameAddress, NameList, NameState, path};
use clap::Args;

use crate::client::Ask;
use crate::output;

/// List the host names of the policy in force with their addresses, and who said so.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    ask: Ask,
}

impl List {
    pub fn execute(self) -> anyhow::Result<()> {
        let list: NameList = self.ask.connect.get(path::POLICY_NAMES)?;
        self.ask.show(&list, text)
    }
}

/// Read an argument `NAME=ADDRESS`; the name comes back in small letters and without dots at its end.
pub fn known(text: &str) -> Result<(String, IpAddr), String> {
    let (name, addr) = text.split_once('=').ok_or("write NAME=ADDRESS")?;
    let addr = addr.parse().map_err(|_| format!("`{addr}` is not an address"))?;
    Ok((name.trim_end_matches('.').to_ascii_lowercase(), addr))
}

fn text(list: &NameList) -> String {
    if list.names.is_empty() {
        return "the policy names no host\n".to_owned();
    }
    let mut out = String::new();
    for state in &list.names {
        name(&mut out, state);
    }
    out
}

fn name(out: &mut String, state: &NameState) {
    let answered = match state.answered_seconds_ago {
        Some(seconds) => format!("answered {} ago", output::duration(seconds)),
        None => "never answered".to_owned(),
    };
    let failures = match state.failures {
        0 => String::new(),
        n => format!(", {n} questions since came to nothing"),
    };
    let _ = writeln!(out, "{}  {answered}{failures}", state.name);
    if let Some(error) = &state.last_error {
        let _ = writeln!(out, "  ! {error}");
    }
    for at in &state.settings {
        let _ = writeln!(out, "  {at}: {}", at.text);
    }
    for address in &state.addresses {
        let _ = writeln!(out, "  {}", one(address));
    }
    if state.addresses.is_empty() {
        let _ = writeln!(out, "  no address: the next shorter network decides");
    }
    if state.refused_addresses > 0 {
        let _ = writeln!(out, "  {} addresses of answers were not taken", state.refused_addresses);
    }
}

fn one(address: &NameAddress) -> String {
    let good = match (address.listed, address.ttl_seconds) {
        (true, 0) => "answer over".to_owned(),
        (false, 0) => "no longer in the answer".to_owned(),
        (_, seconds) => format!("good for {}", output::duration(seconds)),
    };
    let flows = match address.applications_with_flows {
        0 => String::new(),
        1 => ", 1 application has flows".to_owned(),
        n => format!(", {n} applications have flows"),
    };
    let said = output::duration(address.said_seconds_ago);
    format!("{:<39} {:<8} said {said} ago, {good}{flows}", address.address.to_string(), address.source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_its_address_are_read() {
        let addr = IpAddr::from([192, 0, 2, 7]);
        assert_eq!(known("Host.Example.=192.0.2.7"), Ok(("host.example".to_owned(), addr)));
        assert!(known("host.example").is_err() && known("host.example=here").is_err());
    }

    #[test]
    fn the_list_says_where_an_address_comes_from() {
        let address = |source: &str, listed, ttl_seconds| NameAddress {
            address: IpAddr::from([192, 0, 2, 7]),
            source: source.to_owned(),
            listed,
            said_seconds_ago: 3,
            ttl_seconds,
            applications_with_flows: 1,
        };
        let state = NameState {
            name: "host.example".into(),
            settings: Vec::new(),
            addresses: vec![address("resolver", true, 9), address("observed", false, 0)],
            answered_seconds_ago: Some(3),
            failures: 2,
            last_error: Some("no answer within 5 s".into()),
            refused_addresses: 4,
        };
        let got = text(&NameList { names: vec![state] });
        for part in [
            "host.example",
            "2 questions since",
            "! no answer",
            "resolver",
            "observed",
            "good for 9",
            "4 addresses",
        ] {
            assert!(got.contains(part), "{part}: {got}");
        }
    }
}
