//! The two gateways of Figure 7 with their daemons: rules, associations, a graph on the one that is measured.

use anyhow::Context;
use lab::Side;
use lab::rig::{Pair, Rig, RigOptions};

use super::bed::{self, Bed, CLEAR_PORT, Counted, TUNNELLED};
use crate::product;

const NAME: &str = "paper-002";

/// A gateway with the hosts around it. What it made goes with it.
pub(super) struct Gateway {
    /// The hosts, which go before the gateways' namespaces do.
    pub(super) bed: Bed,
    rig: Rig,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Err(error) = bed::clean(self.rig.lab.name()) {
            eprintln!("paper-002: namespaces are left: {error:#}");
        }
    }
}

fn rules(side: Side) -> String {
    let [own, other] = TUNNELLED;
    let (local, remote) = if side == Side::Alice { (own, other) } else { (other, own) };
    let rule = |selector: &str, action: &str| {
        format!(
            "{{\"rule\":{{\"direction\":\"both\",\"selectors\":[{selector:?}],\"action\":\"{action}\"}}}}\n"
        )
    };
    let port = if side == Side::Alice { "remote-port" } else { "local-port" };
    [
        rule(&format!("local {local} remote {remote} proto udp {port} {CLEAR_PORT}"), "bypass"),
        rule(&format!("local {local} remote {remote}"), "protect"),
        rule("any", "bypass"),
    ]
    .concat()
}

impl Gateway {
    /// Build it with this suite. `text` is the graph, the word `preset` for one of the name `graph`, or empty.
    ///
    /// # Errors
    /// Without root, or if a part does not start.
    pub(super) fn start(suite: &'static str, graph: &str, text: &str) -> anyhow::Result<Gateway> {
        let binary = product::ravelin()?;
        let options = RigOptions { name: NAME.to_owned(), binary, daemon: None, segmentation: true };
        bed::clean(NAME)?;
        let mut rig = Rig::build(&options)?;
        let bed = Bed::attach(&rig.lab, true)?;
        let qos = match text {
            "" => String::new(),
            "preset" => format!("[qos]\npreset = \"{graph}\"\n"),
            text => {
                let file = rig.folder().join("qos.toml");
                std::fs::write(&file, text)?;
                format!("[qos]\nfile = {:?}\n", file.display().to_string())
            }
        };
        for side in Side::BOTH {
            rig.set_policy(side, "")?;
            let file = rig.folder().join(format!("{}.rules", side.name()));
            std::fs::write(&file, rules(side))?;
            let inside = if side == Side::Alice { bed::inside() } else { vec!["peer".to_owned()] };
            // The load ends on the wire, which path probing would take for a path that long packets do not pass.
            let qos = if side == Side::Alice { qos.as_str() } else { "" };
            let text = format!(
                "[gateway]\ninside = {inside:?}\nrules = {:?}\n[crypto]\nlegacy = true\n\
                 [icmp]\nprobe = false\n{qos}",
                file.display().to_string()
            );
            rig.configure(side, &text);
        }
        rig.start_both()?;
        let [own, other] = TUNNELLED;
        let selectors = |local: &str, remote: &str| {
            ["--selector-local", local, "--selector-remote", remote].map(str::to_owned).to_vec()
        };
        rig.associate(&Pair {
            v6: false,
            mode: "tunnel",
            suite,
            alice: selectors(own, other),
            bob: selectors(other, own),
        })?;
        for side in Side::BOTH {
            bed::pin(rig.daemon(side)?.pid(), side)
                .with_context(|| format!("pinning the daemon of {side:?}"))?;
        }
        Ok(Gateway { bed, rig })
    }

    /// What the counter of the load on the wire says now.
    ///
    /// # Errors
    /// If nft does not answer.
    pub(super) fn counted(&self) -> anyhow::Result<Counted> {
        bed::counted(&self.rig.lab)
    }
}
