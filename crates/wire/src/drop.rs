//! The single table of drop reasons: every packet that ends has a name from here.

macro_rules! drop_reasons {
    ($($variant:ident $name:literal in $section:literal $(, audited by $clause:literal)?: $text:literal;)*) => {
        /// Why a packet ended. One table gives the counter, the word on the command line, the field in the log, the
        /// section in which `ravelin stats` shows it, and whether an auditor must be told.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason {
            $(#[doc = $text] $variant,)*
        }

        impl DropReason {
            /// Every reason, in the order of the counters.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)*];

            /// The word for this reason in commands, logs and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// The section of `ravelin stats` that shows this reason.
            pub const fn section(self) -> &'static str {
                match self { $(DropReason::$variant => $section,)* }
            }

            /// The clause by which such a drop must leave a trace for an auditor; `None`: no clause asks for one.
            pub const fn audited_by(self) -> Option<&'static str> {
                match self { $(DropReason::$variant => drop_reasons!(@clause $($clause)?),)* }
            }

            /// A sentence that says what happened.
            pub const fn text(self) -> &'static str {
                match self { $(DropReason::$variant => $text,)* }
            }
        }
    };
    (@clause) => { None };
    (@clause $clause:literal) => { Some($clause) };
}

drop_reasons! {
    Truncated "truncated" in "ip": "The packet is shorter than its headers say.";
    BadVersion "bad_version" in "ip": "The first nibble is neither 4 nor 6.";
    BadHeader "bad_header" in "ip": "The packet is not what its headers say (something behind its end, or another packet than its stage works on).";
    HeaderLength "header_length" in "ip": "The header length field of IPv4 or TCP is impossible.";
    TotalLength "total_length" in "ip": "A total or payload length field is smaller than the headers it covers.";
    ExtensionOrder "extension_order" in "ip": "An IPv6 extension header stands where none may (RFC 8200 section 4.1).";
    Jumbogram "jumbogram" in "ip": "An IPv6 jumbogram (RFC 2675), which the engine does not take.";
    MappedAddress "mapped_address" in "ip": "An IPv4-mapped address in an IPv6 header, which must not be on a wire.";
    BadChecksum "bad_checksum" in "ip": "The checksum of an IPv4 header, of the UDP header around ESP, or of an ICMP error is wrong.";
    TooManyExtensions "too_many_extensions" in "ip": "More IPv6 extension headers than the parser follows.";
    BadRecord "bad_record" in "spd": "The record in front of a packet from the TUN is missing or not ours.";
    Unstamped "unstamped" in "spd": "A packet came through the TUN without an application's stamp.";
    GsoInvalid "gso_invalid" in "ip": "The segmentation fields of a super-packet contradict its headers.";
    PolicyDiscard "policy_discard" in "spd", audited by "RFC 4301 section 5.1.1": "The application's policy refuses this network or port.";
    NoSpdEntry "no_spd_entry" in "spd", audited by "RFC 4301 section 5.2": "No rule of the SPD matches the packet (RFC 4301 section 4.4.1: the final entry discards).";
    RuleDiscard "rule_discard" in "spd", audited by "RFC 4301 section 5.1.1": "A rule of the SPD discards this packet.";
    PfpUnavailable "pfp_unavailable" in "spd": "A rule of the SPD takes a selector from the packet that the packet does not have.";
    Disagreement "disagreement" in "spd": "The kernel half sent a packet here that policy here would let pass in clear: their policies differ.";
    NoEntry "no_entry" in "spd": "No event of its socket brought an entry for the packet in time (per-socket translation).";
    NoSa "no_sa" in "sad", audited by "RFC 4301 section 5.1.1": "The policy demands protection and no security association serves this flow.";
    HoldFull "hold_full" in "hold": "No association yet, and no room to wait for one.";
    HoldExpired "hold_expired" in "hold": "The packet waited for an association and none came in time.";
    AcquireRefused "acquire_refused" in "hold": "The packet waited for an association and a key manager said that there will be none.";
    SaTooWeak "sa_too_weak" in "sad": "The security association offers less than the policy demands.";
    SelectorMismatch "selector_mismatch" in "sad", audited by "RFC 4301 section 5.2": "The decrypted packet is outside the selectors of its security association.";
    InboundPolicy "inbound_policy" in "spd", audited by "RFC 4301 section 5.2": "The decrypted packet is one that policy does not accept from this association.";
    ClearRefused "clear_refused" in "spd", audited by "RFC 4301 section 5.2": "A packet in clear that a rule of the SPD wants protected, or an ICMP error in clear about such a packet, or about one that it does not let be told.";
    ReservedSpi "reserved_spi" in "sad", audited by "RFC 4303 section 3.4.2": "An SPI from 0 to 255, which no ESP or AH has (RFC 4303 section 2.1).";
    UnknownSpi "unknown_spi" in "sad", audited by "RFC 4303 section 3.4.2": "No inbound security association has this SPI.";
    WrongPeer "wrong_peer" in "sad", audited by "RFC 4303 section 3.4.2": "The SPI is known, but not between these addresses.";
    WrongProtocol "wrong_protocol" in "sad", audited by "RFC 4303 section 3.4.2": "The association is of another protocol (ESP, AH, IPComp) than the packet.";
    Replayed "replayed" in "integrity", audited by "RFC 4303 section 3.4.3": "The sequence number was seen before.";
    ReplayTooOld "replay_too_old" in "integrity", audited by "RFC 4303 section 3.4.3": "The sequence number is left of the replay window.";
    SequenceZero "sequence_zero" in "integrity", audited by "RFC 4303 section 3.4.3": "Sequence number zero is never sent.";
    SequenceExhausted "sequence_exhausted" in "sad", audited by "RFC 4303 section 3.3.3": "The association has used its last sequence number; it needs a new key.";
    SaExpired "sa_expired" in "sad": "The association is behind a hard limit of its lifetime.";
    AuthFailed "auth_failed" in "integrity", audited by "RFC 4303 section 3.4.4": "The integrity check value is wrong.";
    UnitFailed "unit_failed" in "integrity": "The crypto unit of the association is gone, late or broken; nothing of the packet leaves or is delivered.";
    EspTooShort "esp_too_short" in "esp": "The ESP packet is shorter than header, IV, trailer and ICV.";
    EspAlignment "esp_alignment" in "esp": "The ciphertext is no multiple of what its suite works in (RFC 4303 section 2.4: 4 octets at least).";
    EspPadLength "esp_pad_length" in "esp": "The pad length after decryption is longer than the packet.";
    EspPadding "esp_padding" in "esp": "The padding after decryption is not 1, 2, 3 and so on.";
    EspNextHeader "esp_next_header" in "esp": "The next header inside ESP is not one this mode carries.";
    EspDummy "esp_dummy" in "esp": "A dummy packet (next header 59), dropped as RFC 4303 section 2.6 says.";
    AhTooShort "ah_too_short" in "ah": "The AH packet is shorter than its header, or than the header's length field says.";
    AhLength "ah_length" in "ah": "The length field of AH is not the one that ICV and IP version of the association ask for (RFC 4302 section 2.6).";
    AhNextHeader "ah_next_header" in "ah": "The next header inside AH is not one this mode carries.";
    AhHeaders "ah_headers" in "ah": "More octets of options and extension headers in front of AH than it authenticates here.";
    BadOption "bad_option" in "ip": "An IP option runs over the end of its header or has an impossible length.";
    RoutingHeader "routing_header" in "ip": "A routing header of a type whose arrival nobody can predict (only types 0 and 2 can stand in front of AH).";
    RoutingUnfinished "routing_unfinished" in "ip": "A security header behind a source route that is not at its end: this host is not the last destination.";
    BeetHeader "beet_header" in "modes": "The BEET pseudo header contradicts itself (lengths, padding, options).";
    BeetNextHeader "beet_next_header" in "modes": "The next header is not one that BEET mode carries.";
    BeetAddress "beet_address" in "modes": "BEET mode needs the packet's addresses to be those that the association fixes.";
    Unkeyed "unkeyed" in "sad": "Compressed or IP in IP and not inside an association with a key.";
    UnknownTunnel "unknown_tunnel" in "sad": "IP in IP for this host inside an association, and no IP-in-IP association between these addresses.";
    UnknownCpi "unknown_cpi" in "sad": "No inbound IPComp association has this CPI.";
    IpCompTooShort "ipcomp_too_short" in "ipcomp": "Shorter than an IPComp header, or nothing behind it.";
    IpCompNextHeader "ipcomp_next_header" in "ipcomp": "The next header of IPComp is not one this mode carries.";
    IpCompCorrupt "ipcomp_corrupt" in "ipcomp": "The compressed payload is not DEFLATE, ends early, or has octets behind its end.";
    IpCompBomb "ipcomp_bomb" in "ipcomp": "The compressed payload grows beyond the longest packet.";
    IpIpHeader "ipip_header" in "ipip": "The packet inside IP in IP is not of the version that the outer header names.";
    ChainMissing "chain_missing" in "sad": "A member of the association's chain does not exist.";
    ChainDead "chain_dead" in "sad": "A member of the association's chain is behind a hard limit or has no sequence number left.";
    ChainTooLong "chain_too_long" in "sad": "The association's chain has more members than a packet may pass, or is a circle.";
    ChainEncapsulation "chain_encapsulation" in "sad": "A member of the chain that is not the last puts its packets in UDP, which nobody opens inside an association.";
    ChainUnkeyed "chain_unkeyed" in "sad": "The last member of the chain has no key: nobody would accept its packets.";
    EcnCongestion "ecn_congestion" in "modes": "The outer header says congestion, the inner transport cannot be told (RFC 6040 section 4.2).";
    NotEsp "not_esp" in "udp": "A datagram on the ESP port that is neither ESP nor a keepalive.";
    Keepalive "keepalive" in "udp": "A NAT keepalive (one octet 0xff), dropped as RFC 3948 section 2.3 says.";
    IkeUnsupported "ike_unsupported" in "udp": "An IKE message (non-ESP marker) and no key manager to give it to.";
    TransportOptions "transport_options" in "modes": "IP options or a routing header, which transport mode over UDP cannot carry.";
    TransportAddress "transport_address" in "modes": "Transport mode needs the packet's addresses to be those of the association.";
    Fragment "fragment" in "fragments", audited by "RFC 4303 section 3.4.1": "A fragment where only a whole packet can be, or of a packet that was refused already.";
    FragmentEmpty "fragment_empty" in "fragments": "A fragment without content.";
    FragmentAlignment "fragment_alignment" in "fragments": "A fragment that is not the last and no multiple of 8 octets long.";
    FragmentTooLong "fragment_too_long" in "fragments": "A fragment that ends behind the longest packet there is.";
    FragmentHeader "fragment_header" in "fragments": "A first fragment that does not hold all headers (RFC 7112 section 5), or one that names another next header than the first.";
    FragmentOverlap "fragment_overlap" in "fragments", audited by "RFC 4301 section 7": "A fragment overlaps another one of its packet: all of it is refused (RFC 5722).";
    FragmentEnd "fragment_end" in "fragments", audited by "RFC 4301 section 7": "The fragments of a packet say that it ends in different places.";
    FragmentEcn "fragment_ecn" in "fragments": "Fragments of one packet with ECN fields that nothing right can be made of (RFC 3168 section 5.3).";
    FragmentHeld "fragment_held" in "fragments": "A fragment kept until its packet is complete; not a loss.";
    FragmentTimeout "fragment_timeout" in "fragments": "A fragment whose packet did not become complete in time.";
    FragmentLimit "fragment_limit" in "fragments": "A fragment for which the reassembler had no room.";
    TooBig "too_big" in "size": "The packet does not fit the tunnel's path MTU; its sender was told.";
    TooLong "too_long" in "size": "The packet does not fit one IP datagram once encapsulated.";
    NoRoom "no_room" in "size": "The buffer has no room for the headers or the trailer; its device was to leave it.";
    NestingLimit "nesting_limit" in "sad": "More nested security headers than the engine opens.";
    EncapsulatedInside "encapsulated_inside" in "sad": "A datagram for this host's ESP port inside an association: ESP in UDP is not opened there.";
    Scrubbed "scrubbed" in "scrub": "A packet of a flow that is scrubbed, ended by a rule of the scrubber; the drop names it.";
    IcmpTaken "icmp_taken" in "icmp": "An ICMP error about a packet of an association, accepted; not a loss.";
    IcmpRefused "icmp_refused" in "icmp": "An ICMP error of a type and code that the configuration does not accept.";
    IcmpUnrelated "icmp_unrelated" in "icmp": "An ICMP error that quotes a security header, but no outbound association has that SPI between these addresses and ports.";
    IcmpShort "icmp_short" in "icmp": "An ICMP error that quotes too little of its packet to see SPI and sequence number.";
    IcmpSequence "icmp_sequence" in "icmp": "An ICMP error that quotes a sequence number not sent yet, or sent too long ago.";
    IcmpMtu "icmp_mtu" in "icmp": "An ICMP error with an MTU that the quoted packet would have fitted, or that no link has.";
    IcmpRate "icmp_rate" in "icmp": "More ICMP errors than the engine looks at in a second.";
    IcmpQuoted "icmp_quoted" in "icmp", audited by "RFC 4301 section 6.2": "An ICMP error inside an association that quotes a packet which the association does not carry.";
    WrongDevice "wrong_device" in "spd": "A clear packet where only protected ones are accepted.";
    QueueFull "queue_full" in "qos": "The queue of its class was full.";
    Policed "policed" in "qos": "A policer found the packet beyond the rate of its class.";
    EarlyDrop "early_drop" in "qos": "Random early detection took the packet before its queue was full.";
    AqmDrop "aqm_drop" in "qos": "Active queue management took the packet, since packets of its queue wait too long.";
    ShapedOut "shaped_out" in "qos": "A shaper would have held the packet beyond its limit.";
    AuthBudget "auth_budget" in "qos": "Too much time went into packets of its source that did not authenticate.";
    ClassGone "class_gone" in "qos": "The graph has its class no more, and no rule gives it another.";
    NotAdmitted "not_admitted" in "qos": "Admission control did not admit its user.";
    NoUnit "no_unit" in "qos": "No crypto unit of the graph serves the suite of its association.";
    ComponentRefused "component_refused" in "qos": "A component that was loaded into the graph refused the packet.";
    Backpressure "backpressure" in "devices": "The kernel would not take the packet (socket or device queue full).";
    Unroutable "unroutable" in "devices": "The kernel has no route to the peer.";
    HandOver "hand_over" in "devices": "The packet met the moment of a hand-over between daemons.";
}

impl std::fmt::Display for DropReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::DropReason;

    #[test]
    fn names_are_unique_and_counters_are_dense() {
        let mut names: Vec<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        let total = names.len();
        names.dedup();
        assert_eq!(names.len(), total);
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
            assert!(reason.text().ends_with('.'));
        }
    }
}
