//! The rules: every normalisation has a number that configuration, counters, reports, tests and the manual share.
//!
//! The numbers are those of the table in docs/scrub.md: 4 IPv4, 6 IPv6, I ICMP, U UDP, S SCTP, T the TCP header, O TCP
//! options, Q the TCP sequence space, V security protocols.

use std::fmt;

/// The mode of a rule, which the configuration sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// The rule is not looked at.
    Off,
    /// The rule's effect is counted and reported; the packet stays as it was.
    Observe,
    /// The rule acts on packets.
    On,
}

impl Mode {
    /// The word in configuration and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Observe => "observe",
            Mode::On => "on",
        }
    }
}

use Mode::{Off, On};

macro_rules! rules {
    ($($variant:ident $id:literal $name:literal $structural:literal [$minimal:ident $standard:ident $strict:ident] $text:literal;)*) => {
        /// One normalisation, which has a number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Rule {
            $(#[doc = $text] $variant,)*
        }

        impl Rule {
            /// Every rule, in the order of the counters.
            pub const ALL: &'static [Rule] = &[$(Rule::$variant,)*];

            /// The number of the rule: `4.9`, `Q.8`.
            pub const fn id(self) -> &'static str {
                match self { $(Rule::$variant => $id,)* }
            }

            /// The word for the rule in configuration, logs and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Rule::$variant => $name,)* }
            }

            /// The sentence that says what the rule does.
            pub const fn text(self) -> &'static str {
                match self { $(Rule::$variant => $text,)* }
            }

            /// Whether a packet that the rule refuses cannot be read any further. Such a rule cannot be off: it acts
            /// or, where packets pass as they are, it observes.
            pub const fn is_structural(self) -> bool {
                match self { $(Rule::$variant => $structural,)* }
            }

            /// The modes of the rule in the profiles `minimal`, `standard`, `strict`.
            pub(crate) const fn modes(self) -> [Mode; 3] {
                match self { $(Rule::$variant => [$minimal, $standard, $strict],)* }
            }
        }
    };
}

rules! {
    V4Header "4.1" "ipv4_header" true [On On On] "Drop an IPv4 packet with another version, or with a header shorter than 20 octets or longer than the packet.";
    V4Length "4.2" "ipv4_length" true [On On On] "Drop a packet that is longer than its frame; cut off what lies behind it in the frame.";
    V4Tos "4.3" "ipv4_tos" false [Off Off On] "Set the DSCP field to zero; keep ECN where the flow negotiated it.";
    V4Id "4.4" "ipv4_id" false [Off Off On] "Number packets by sender and receiver, so that identifications tell nothing of the host behind; zero where there can be no fragments (RFC 6864). Answers and errors of ICMP may be fragmented; errors from inside quote a header and eight octets.";
    V4Reserved "4.5" "ipv4_reserved" false [On On On] "Clear the reserved flag.";
    V4DontFragment "4.6" "ipv4_dont_fragment" false [Off On On] "Answer a packet that may not be fragmented and does not fit the next link, instead of letting it die behind.";
    V4Contradiction "4.7" "ipv4_df_fragment" false [On On On] "Drop a fragment that may not be fragmented.";
    V4FragmentLength "4.8" "ipv4_fragment_length" false [On On On] "Drop a fragment that is not the last and no multiple of 8 octets, one without content, and one that ends behind the longest packet.";
    V4Reassemble "4.9" "ipv4_reassemble" false [On On On] "Put fragments together; what does not fit the next link leaves in fragments without overlap, in order.";
    V4Overlap "4.10" "ipv4_overlap" false [On On On] "Drop all fragments of a packet two of which overlap or say where it ends in two ways.";
    V4FragmentLimit "4.11" "ipv4_fragment_limit" false [On On On] "Bound fragments of a packet, packets of a host, octets in all, and how long they wait.";
    V4TinyFragment "4.12" "ipv4_tiny_fragment" false [On On On] "Drop a first fragment that does not hold the transport header, and a second one that starts inside it (RFC 1858, RFC 3128).";
    V4Address "4.13" "ipv4_address" false [On On On] "Drop a packet from an address that no host sends from, or to one that no router forwards to.";
    V4Ttl "4.14" "ipv4_ttl" false [On On On] "Raise the time to live to the highest of the flow, and to the configured least.";
    V4Checksum "4.15" "ipv4_checksum" false [On On On] "Drop a packet with a wrong header checksum.";
    V4Options "4.16" "ipv4_options" false [On On On] "Remove options; drop source routes.";
    V4Protocol "4.17" "ipv4_protocol" false [Off On On] "Drop protocols that are not on the list.";
    V6Length "6.1" "ipv6_length" true [On On On] "Drop a packet that is longer than its frame and a jumbogram; cut off what lies behind it in the frame.";
    V6HopLimit "6.2" "ipv6_hop_limit" false [On On On] "Raise the hop limit to the highest of the flow, and to the configured least.";
    V6Routing "6.3" "ipv6_routing" false [On On On] "Drop routing headers of types that are not on the list; type 0 always (RFC 5095).";
    V6Chain "6.4" "ipv6_chain" true [On On On] "Drop chains of extension headers that are out of order, doubled, or too long (RFC 8200 section 4.1, RFC 8883).";
    V6TwoFragmentHeaders "6.5" "ipv6_two_fragment_headers" true [On On On] "Drop a packet with two fragment headers.";
    V6Atomic "6.6" "ipv6_atomic" false [On On On] "Take the fragment header off a packet that is its only fragment (RFC 6946).";
    V6FirstFragment "6.7" "ipv6_first_fragment" false [On On On] "Drop a first fragment without all headers (RFC 7112).";
    V6Overlap "6.8" "ipv6_overlap" false [On On On] "Drop all fragments of a packet two of which overlap, also those that come later (RFC 5722).";
    V6FragmentLength "6.9" "ipv6_fragment_length" false [On On On] "Drop fragments of wrong length, behind the longest packet, or that name another next header than the first; put the others together and cut them in order.";
    V6Options "6.10" "ipv6_options" false [Off On On] "Turn hop-by-hop and destination options that are not on the list into padding, and fill padding with zeros.";
    V6Rest "6.11" "ipv6_no_next_header" false [On On On] "Cut what lies behind \"no next header\"; clear reserved bits, and flow labels in the strict profile.";
    V6Neighbour "6.12" "ipv6_neighbour" false [On On On] "Drop neighbour discovery that crossed a router, and router advertisements from outside.";
    V6Address "6.13" "ipv6_address" false [On On On] "Drop packets from or to addresses that must not be on a wire, and the ICMP of the other family.";
    IcmpEcho "I.1" "icmp_echo" false [On On On] "Drop wrong ICMP checksums, echo to many hosts, and answers that nobody asked for; set the code of an echo to zero.";
    IcmpQuote "I.2" "icmp_quote" false [On On On] "Drop errors about packets that no flow sent; cut quotations to what hosts need.";
    IcmpMtu "I.3" "icmp_mtu" false [On On On] "Drop impossible path MTUs, redirects, source quench, timestamps, masks and router advertisements.";
    IcmpType "I.4" "icmp_type" false [Off On On] "Drop all other types.";
    UdpLength "U.1" "udp_length" false [On On On] "Drop wrong lengths and checksums; cut what lies behind the datagram; compute a checksum that IPv4 left out.";
    UdpFlow "U.2" "udp_flow" false [Off On On] "Drop port 0, and answers from outside to questions nobody asked.";
    SctpChunks "S.1" "sctp_chunks" false [Off On On] "Drop SCTP packets whose chunks contradict their lengths, or whose INIT is impossible or not alone.";
    TcpOffset "T.1" "tcp_offset" true [On On On] "Drop a segment whose header is shorter than 20 octets or longer than the segment.";
    TcpChecksum "T.2" "tcp_checksum" false [On On On] "Drop a segment with a wrong checksum.";
    TcpReserved "T.3" "tcp_reserved" false [On On On] "Clear reserved bits.";
    TcpEcn "T.4" "tcp_ecn" false [Off On On] "Clear ECE, CWR and the ECN field where the handshake did not negotiate ECN.";
    TcpFlags "T.5" "tcp_flags" false [On On On] "Drop combinations of flags that mean nothing; clear PSH and URG on SYN.";
    TcpUrgent "T.6" "tcp_urgent" false [On On On] "Deliver urgent data in band: clear URG and its pointer.";
    TcpPayload "T.7" "tcp_payload" false [On On On] "Cut data from SYN and RST.";
    TcpPorts "T.8" "tcp_ports" false [On On On] "Drop port 0, and a segment from an address and port to itself.";
    OptionSyntax "O.1" "tcp_option_syntax" false [On On On] "Drop options that contradict themselves or come twice; zeros behind the end of the list.";
    OptionMss "O.2" "tcp_option_mss" false [On On On] "Remove MSS, window scale and SACK-permitted outside of SYN; lower the MSS to what fits.";
    OptionScale "O.3" "tcp_option_scale" false [On On On] "Window scales of at most 14, and only where both sides offered one.";
    OptionSack "O.4" "tcp_option_sack" false [On On On] "Remove SACK blocks that are not about data under way.";
    OptionTimestamps "O.5" "tcp_option_timestamps" false [On On On] "Drop segments with timestamps older than the flow's, or without where the flow has them; remove timestamps nobody negotiated.";
    OptionAuthentication "O.6" "tcp_option_authentication" false [On On On] "Drop segments with an MD5 or AO option in a flow that did not start with it, and the other way round.";
    OptionFastOpen "O.7" "tcp_option_fast_open" false [On On On] "Remove fast-open cookies and data of the SYN.";
    OptionUnknown "O.8" "tcp_option_unknown" false [Off On On] "Turn options that are not on the list into padding; MPTCP in the SYN, so that it falls back.";
    Handshake "Q.1" "tcp_handshake" false [On On On] "Drop segments of connections that nobody opened, and acknowledgments of a handshake that do not fit it.";
    OneIsn "Q.2" "tcp_one_isn" false [On On On] "One initial sequence number for each direction: a SYN with another one is dropped until the first is settled.";
    SplitHandshake "Q.3" "tcp_split_handshake" false [On On On] "Drop simultaneous and split opens.";
    IsnModulation "Q.4" "tcp_isn_modulation" false [Off Off Off] "Give inside hosts initial sequence numbers that cannot be guessed (RFC 6528), unless the connection is signed.";
    Window "Q.5" "tcp_window" false [On On On] "Cut what lies outside of the receiver's window; one octet for a window of zero.";
    WindowShrink "Q.6" "tcp_window_shrink" false [On On On] "The right edge of a window never moves back.";
    Acknowledgment "Q.7" "tcp_acknowledgment" false [On On On] "Drop acknowledgments of what was never sent, or too old to be true (RFC 5961 section 5).";
    FirstWins "Q.8" "tcp_first_wins" false [On On On] "Every copy of an octet that was not acknowledged yet is rewritten to the first one.";
    Duplicate "Q.9" "tcp_duplicate" false [On On On] "Of data that were acknowledged the header goes on alone, so that the receiver acknowledges again.";
    BeyondHole "Q.10" "tcp_beyond_hole" false [On On On] "Where memory is short, drop data behind a hole.";
    ResetExact "Q.11" "tcp_reset_exact" false [On On On] "Only a reset at exactly the expected number passes; others in the window are challenged (RFC 5961 section 3).";
    FinEdge "Q.12" "tcp_fin_edge" false [On On On] "One FIN, at the end of the data; what lies behind it is cut.";
    SynInside "Q.13" "tcp_syn_established" false [On On On] "Challenge a SYN inside of a connection (RFC 5961 section 4); let one open the next connection only where no segment of the old one fits.";
    Midstream "Q.14" "tcp_midstream" false [Off On On] "Drop segments of connections whose start was not seen.";
    SmallSegments "Q.15" "tcp_small_segments" false [Off On On] "Bound the separate pieces that one connection may have in store.";
    Idle "Q.16" "tcp_idle" false [On On On] "A connection that is forgotten is closed both ways, never passed unseen.";
    SecuritySanction "V.1" "ipsec_sanction" false [Off Off Off] "Drop ESP, AH and IKE between hosts that have no sanctioned association (paper 003, section II).";
    AuthenticatedInside "V.2" "ah_inside" false [On On On] "Look behind authentication headers as if there were none; drop a packet that would have to be changed there, for nobody here can sign it anew, and IP packets behind them, unless its hosts are sanctioned.";
}

impl Rule {
    /// The rule with this number or name.
    pub fn find(word: &str) -> Option<Rule> {
        Rule::ALL.iter().copied().find(|rule| rule.id().eq_ignore_ascii_case(word) || rule.name() == word)
    }

    /// The index of the rule in [`Rule::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// A set of rules.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules(u128);

impl Rules {
    /// The set of no rules.
    pub const NONE: Rules = Rules(0);

    /// Add a rule to the set.
    pub fn insert(&mut self, rule: Rule) {
        self.0 |= 1 << rule.index();
    }

    /// Whether the rule is in the set.
    pub const fn contains(self, rule: Rule) -> bool {
        self.0 & 1 << rule.index() != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The rules that are in either set.
    #[must_use]
    pub const fn union(self, other: Rules) -> Rules {
        Rules(self.0 | other.0)
    }

    /// The rules of the set, in the order of [`Rule::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Rule> {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            let rule = Rule::ALL.get(bits.trailing_zeros() as usize).copied();
            bits &= bits.wrapping_sub(1);
            rule
        })
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Rule::id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_fit_a_set() {
        assert!(Rule::ALL.len() <= 128);
        for words in [Rule::id as fn(Rule) -> &'static str, Rule::name] {
            let mut all: Vec<_> = Rule::ALL.iter().map(|rule| words(*rule)).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), Rule::ALL.len());
        }
        for (index, rule) in Rule::ALL.iter().enumerate() {
            assert_eq!(rule.index(), index);
            assert_eq!(Rule::find(rule.id()), Some(*rule));
            assert_eq!(Rule::find(rule.name()), Some(*rule));
            assert!(!rule.is_structural() || !rule.modes().contains(&Off), "{rule} cannot be off");
            let [minimal, standard, strict] = rule.modes();
            assert!(minimal <= standard && standard <= strict, "{rule}: a stricter profile does less");
        }
    }
}
