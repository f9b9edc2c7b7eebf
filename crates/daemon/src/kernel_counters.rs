//! What the counters of the kernel half mean, in words.

/// One counter: its word, whether it counts packets or calls that were refused, and what it means.
struct Meaning(&'static str, bool, &'static str);

/// The meanings of all counters, in the order in which `bpf/include/abi.h` lists them.
const MEANINGS: [Meaning; 75] = [
    Meaning("sockets_stamped", false, "A socket got the mark of its application."),
    Meaning("sockets_restamped", false, "A socket changed hands and got the stricter application's mark."),
    Meaning("egress_redirected", false, "A packet was sent to the TUN instead of the uplink."),
    Meaning("tun_recorded", false, "A packet reached the TUN with its record."),
    Meaning("tun_stripped", false, "A packet from the daemon was marked and handed to the host."),
    Meaning("ingress_proven", false, "A packet was accepted since it came protected as the policy demands."),
    Meaning("connect_untrusted", true, "connect() to an untrusted network: EPERM."),
    Meaning("connect_no_item", true, "connect() to ports that no item of the protection covers: EPERM."),
    Meaning("sendmsg_untrusted", true, "sendmsg() to an untrusted network: EPERM."),
    Meaning("sendmsg_no_item", true, "sendmsg() to ports that no item of the protection covers: EPERM."),
    Meaning(
        "handover_incomparable",
        true,
        "A socket of an application that neither is stricter than the other: EPERM.",
    ),
    Meaning("setsockopt_mark", true, "A program tried to set the mark of a socket: EPERM."),
    Meaning("stamp_failed", true, "A socket could not be stamped and was refused."),
    Meaning(
        "egress_unguarded",
        true,
        "A packet of a policed program to a device that is not guarded: EPERM.",
    ),
    Meaning("egress_untrusted", true, "A packet to an untrusted network."),
    Meaning("egress_no_tun", true, "A packet that must be protected, and no TUN to take it."),
    Meaning(
        "egress_source_route",
        true,
        "A packet with a source route, or that a route wraps in another one: its real destination is unknown.",
    ),
    Meaning("egress_malformed", true, "A packet of a policed program with headers that cannot be read."),
    Meaning("ingress_no_proof", true, "A clear packet for a socket whose policy demands protection."),
    Meaning(
        "ingress_sticky",
        true,
        "A clear packet where protection is optional, but an association serves its flow.",
    ),
    Meaning(
        "ingress_services",
        true,
        "A protected packet whose association gives less than the policy demands.",
    ),
    Meaning(
        "ingress_other_app",
        true,
        "A protected packet whose association is bound to another application.",
    ),
    Meaning("ingress_untrusted", true, "A packet from an untrusted network."),
    Meaning("ingress_no_item", true, "A packet for ports that no item of the protection covers."),
    Meaning(
        "ingress_unexpected_proof",
        true,
        "A protected packet for a socket whose answer would leave in clear.",
    ),
    Meaning("ingress_malformed", true, "A packet for a policed program with headers that cannot be read."),
    Meaning("icmp_protected", true, "A clear ICMP error that quotes a protected flow."),
    Meaning("icmp_unreadable", true, "A clear ICMP error whose quote cannot be read."),
    Meaning("tun_unstamped", true, "A packet without a stamp on its way into the TUN."),
    Meaning("tun_no_room", true, "A packet that has no room for its record."),
    Meaning("tun_no_record", true, "A packet came out of the TUN without a record."),
    Meaning("tun_no_proof", true, "A packet came out of the TUN without proof of protection."),
    Meaning("tun_fragment", true, "A fragment came out of the TUN."),
    Meaning("tun_malformed", true, "A packet came out of the TUN with headers that cannot be read."),
    Meaning("events_lost", false, "A refusal that was counted but had no room in the log's queue."),
    Meaning("sockets_required", false, "A program asked for protection on its own socket."),
    Meaning(
        "sockopt_weaker",
        true,
        "A program asked for less on its socket than policy or an earlier request demands: EPERM.",
    ),
    Meaning("enc_mirrored", false, "A protected packet was shown in clear on the enc device."),
    Meaning("gateway_forwarded", false, "A packet from a network behind this gateway was sent to the TUN."),
    Meaning(
        "gateway_arrived",
        false,
        "A clear packet for a network behind this gateway was sent to the TUN for rules to decide.",
    ),
    Meaning("gateway_malformed", true, "A packet to be forwarded with headers that cannot be read."),
    Meaning(
        "gateway_source_route",
        true,
        "A packet to be forwarded with a source route, whose real destination is unknown.",
    ),
    Meaning(
        "gateway_unseen",
        true,
        "A packet that this gateway forwards was about to leave without having been looked at.",
    ),
    Meaning(
        "gateway_unproven",
        true,
        "A clear packet was about to reach a network behind this gateway without having been looked at.",
    ),
    Meaning(
        "gateway_fragment_over",
        true,
        "A fragment to be forwarded whose time to live is over, which could be joined with others that have time left.",
    ),
    Meaning("socket_events", false, "What a socket did was told, for an entry of its own."),
    Meaning("socket_events_lost", true, "What a socket did could not be told: its packets have no entry."),
    Meaning("egress_guard", true, "A packet that no block decides about, for a network that `guard` closes."),
    Meaning(
        "egress_disguised",
        true,
        "A frame by a packet socket that carries IP under the name of another protocol.",
    ),
    Meaning(
        "setsockopt_bypass",
        true,
        "A program tried to send frames past the programs on the device (PACKET_QDISC_BYPASS, XDP_TX_RING): EPERM.",
    ),
    Meaning(
        "executables_new",
        false,
        "A new file of a program that the policy names was executed, and known at once.",
    ),
    Meaning(
        "executables_no_room",
        true,
        "A new file of a program that the policy names had no room in the table: its process is refused every peer.",
    ),
    Meaning(
        "connections_claimed",
        false,
        "A connection became that of the program that sends on it, which is another one than its listener's.",
    ),
    Meaning(
        "traffic_lost",
        false,
        "A packet is missing among what `stats --per-app` shows: there are too many applications.",
    ),
    Meaning(
        "dns_answers",
        false,
        "An answer of the DNS that a program got was told, for names in the policy.",
    ),
    Meaning("dns_unasked", false, "A message like an answer of the DNS came to a socket that had not asked."),
    Meaning(
        "dns_answers_lost",
        false,
        "An answer of the DNS could not be told: its addresses are learned later.",
    ),
    Meaning("egress_limited", true, "A packet in clear beyond what `limit clear` lets its application send."),
    Meaning("flows_lost", false, "A packet whose flow found no room in the table of flows."),
    Meaning(
        "executables_unverified",
        true,
        "A file was executed that is not known to have the digest that the policy asks for: its process is refused every peer.",
    ),
    Meaning(
        "sockopt_off",
        true,
        "A program asked for protection on its own socket, which the configuration does not allow: EACCES.",
    ),
    Meaning(
        "gateway_icmp",
        true,
        "An ICMP error for this gateway from a network behind it, of a type that the configuration does not accept.",
    ),
    Meaning(
        "egress_unclaimed",
        true,
        "Data of which nobody knows what process has sent it: on a connection that came in, or by a session of L2TP.",
    ),
    Meaning(
        "events_left_out",
        false,
        "A refusal, or a file that was executed, that was counted but not told: there were many of the same.",
    ),
    Meaning(
        "ingress_copy",
        false,
        "A raw socket was not shown its copy of an ESP or AH packet that came for the daemon: no refusal, what is inside reaches its own socket.",
    ),
    Meaning(
        "egress_group",
        true,
        "A packet to a multicast group that must be protected, and no association with the group: EPERM. Add one with `ravelin sa add`.",
    ),
    Meaning(
        "ingress_tagged",
        false,
        "A frame with a VLAN tag behind a priority tag (VLAN 0), which the kernel would take off unseen, was dropped.",
    ),
    Meaning(
        "ingress_limited",
        true,
        "A packet in clear beyond what `limit accept` lets its application hear of one source.",
    ),
    Meaning(
        "egress_foreign",
        true,
        "A packet with another host's address as its source, to which policy lets nothing go in clear: EPERM.",
    ),
    Meaning("icmp_redirect", true, "A redirect that arrived in clear."),
    Meaning(
        "tun_foreign_answer",
        true,
        "An answer to a program that sent from another host's address: it would have gone there in clear.",
    ),
    Meaning(
        "tun_unseen",
        true,
        "A frame that a socket handed to the TUN past the program in front of it: its record could be anybody's.",
    ),
    Meaning(
        "ingress_unclaimed",
        true,
        "Data for an SCTP socket of which nobody knows whose it is. It arrives again when its program has sent.",
    ),
    Meaning(
        "records_missing",
        true,
        "A process of which the kernel kept no record, so that what it has run before is not known: it must not send. Start it again.",
    ),
    Meaning(
        "l2tp_refused",
        true,
        "A program of policy asked the kernel for a session of L2TP, whose packets are no socket's of its own: EPERM. Use its daemon without kernel sessions.",
    ),
];

fn meaning(word: &str) -> Option<&'static Meaning> {
    MEANINGS.iter().find(|meaning| meaning.0 == word)
}

/// What a counter means; `None` for one that this version does not know.
pub fn text(word: &str) -> Option<&'static str> {
    meaning(word).map(|meaning| meaning.2)
}

/// Whether a counter counts what was refused or dropped. One that is not known does.
pub fn is_refusal(word: &str) -> bool {
    meaning(word).is_none_or(|meaning| meaning.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_the_kernel_half_has_a_meaning() {
        let ours: Vec<&str> = MEANINGS.iter().map(|meaning| meaning.0).collect();
        assert_eq!(ours, sockmon::abi::COUNTERS);
        assert!(MEANINGS.iter().all(|meaning| meaning.2.ends_with('.')));
    }
}
