//! Checks of networks that are host names, which are known by the word of DNS alone (docs/design/0014).

use std::collections::HashMap;

use super::networks::same_network;
use super::subjects::CheckState;
use crate::MAX_HOSTS;
use crate::ast::{AddressRange, Block, Network, NetworkKind};
use crate::diagnostic::{Code, Diagnostic, Sink, show};
use crate::prefixes::Nesting;

fn hosts(block: &Block) -> impl Iterator<Item = (&str, &Network)> {
    block.networks.iter().filter_map(|network| match &network.range {
        AddressRange::Host(name) => Some((name.as_str(), network)),
        _ => None,
    })
}

/// Checks for names that occur twice in a block, or are too many.
pub(super) fn check(block: &Block, sink: &mut Sink, state: &mut CheckState<'_>) -> bool {
    let mut seen: HashMap<&str, &Network> = HashMap::new();
    let mut good = true;
    for (name, network) in hosts(block) {
        if let Some(first) = seen.get(name) {
            same_network(first, network, &format!("host `{}`", show(name)), sink);
            good = false;
            continue;
        }
        seen.insert(name, network);
        state.hosts.insert(name.to_owned());
        if state.hosts.len() > MAX_HOSTS {
            sink.push(
                Diagnostic::new(
                    Code::TooManyHosts,
                    network.range_span,
                    format!("the policy names more than {MAX_HOSTS} hosts"),
                )
                .label("the first one too many")
                .help("write prefixes where the addresses are known: each name is asked for again and again"),
            );
            return false;
        }
    }
    good
}

/// Warns of how little a name is worth.
pub(super) fn weak(block: &Block, nesting: &Nesting, sink: &mut Sink) {
    let covered = nesting.all_ipv4 && nesting.all_ipv6;
    for (name, network) in hosts(block) {
        let name = show(name);
        if network.kind == NetworkKind::Trusted {
            sink.push(
                Diagnostic::new(
                    Code::ClearByName,
                    network.range_span,
                    format!("whoever answers for `{name}` in the DNS says what goes out in clear"),
                )
                .label("clear text to every address of a name is a weak identity")
                .help("write the addresses, or protect the host: a false answer then harms nobody"),
            );
            continue;
        }
        sink.push(
            Diagnostic::new(
                Code::WeakIdentity,
                network.range_span,
                format!("`{name}` is known by its name only: the DNS says which peers that are"),
            )
            .label("weak identity")
            .help(
                "while an address of it is not known, the next shorter network decides; write the addresses if they are fixed",
            ),
        );
        if !covered {
            sink.push(
                Diagnostic::new(
                    Code::UnknownInClear,
                    network.range_span,
                    format!(
                        "an address of `{name}` that is not known yet may be in no network of this block"
                    ),
                )
                .label("in clear until it is known")
                .help("add `network 0.0.0.0/0 TYPE;` and `network ::/0 TYPE;` that are not trusted"),
            );
        }
    }
}
