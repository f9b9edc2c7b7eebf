//! The single table of drop reasons: every packet that ends has a name from here.

macro_rules! drop_reasons {
    ($($variant:ident $name:literal $text:literal;)*) => {
        /// Why a packet ended. One table gives the counter, the word on the command line, the field in the log.
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

            /// A sentence that says what happened.
            pub const fn text(self) -> &'static str {
                match self { $(DropReason::$variant => $text,)* }
            }
        }
    };
}

drop_reasons! {
    Truncated "truncated" "The packet is shorter than its headers say.";
    BadVersion "bad_version" "The first nibble is neither 4 nor 6.";
    BadHeader "bad_header" "The packet is not what its headers say (something behind its end, or another packet than its stage works on).";
    HeaderLength "header_length" "The header length field of IPv4 or TCP is impossible.";
    TotalLength "total_length" "A total or payload length field is smaller than the headers it covers.";
    ExtensionOrder "extension_order" "An IPv6 extension header stands where none may (RFC 8200 section 4.1).";
    Jumbogram "jumbogram" "An IPv6 jumbogram (RFC 2675), which the engine does not take.";
    MappedAddress "mapped_address" "An IPv4-mapped address in an IPv6 header, which must not be on a wire.";
    BadChecksum "bad_checksum" "The checksum of an IPv4 header, of the UDP header around ESP, or of an ICMP error is wrong.";
    TooManyExtensions "too_many_extensions" "More IPv6 extension headers than the parser follows.";
    BadRecord "bad_record" "The record in front of a packet from the TUN is missing or not ours.";
    Unstamped "unstamped" "A packet came through the TUN without an application's stamp.";
    GsoInvalid "gso_invalid" "The segmentation fields of a super-packet contradict its headers.";
    PolicyDiscard "policy_discard" "The application's policy refuses this network or port.";
    NoSpdEntry "no_spd_entry" "No rule of the SPD matches the packet (RFC 4301 section 4.4.1: the final entry discards).";
    RuleDiscard "rule_discard" "A rule of the SPD discards this packet.";
    PfpUnavailable "pfp_unavailable" "A rule of the SPD takes a selector from the packet that the packet does not have.";
    Disagreement "disagreement" "The kernel half sent a packet here that policy here would let pass in clear: their policies differ.";
    NoEntry "no_entry" "No event of its socket brought an entry for the packet in time (per-socket translation).";
    NoSa "no_sa" "The policy demands protection and no security association serves this flow.";
    HoldFull "hold_full" "No association yet, and no room to wait for one.";
    HoldExpired "hold_expired" "The packet waited for an association and none came in time.";
    AcquireRefused "acquire_refused" "The packet waited for an association and a key manager said that there will be none.";
    SaTooWeak "sa_too_weak" "The security association offers less than the policy demands.";
    SelectorMismatch "selector_mismatch" "The decrypted packet is outside the selectors of its security association.";
    InboundPolicy "inbound_policy" "The decrypted packet is one that policy does not accept from this association.";
    ClearRefused "clear_refused" "A packet in clear that a rule of the SPD wants protected, or an ICMP error in clear about such a packet, or about one that it does not let be told.";
    ReservedSpi "reserved_spi" "An SPI from 0 to 255, which no ESP or AH has (RFC 4303 section 2.1).";
    UnknownSpi "unknown_spi" "No inbound security association has this SPI.";
    WrongPeer "wrong_peer" "The SPI is known, but not between these addresses.";
    WrongProtocol "wrong_protocol" "The association is of another protocol (ESP, AH, IPComp) than the packet.";
    Replayed "replayed" "The sequence number was seen before.";
    ReplayTooOld "replay_too_old" "The sequence number is left of the replay window.";
    SequenceZero "sequence_zero" "Sequence number zero is never sent.";
    SequenceExhausted "sequence_exhausted" "The association has used its last sequence number; it needs a new key.";
    SaExpired "sa_expired" "The association is behind a hard limit of its lifetime.";
    AuthFailed "auth_failed" "The integrity check value is wrong.";
    EspTooShort "esp_too_short" "The ESP packet is shorter than header, IV, trailer and ICV.";
    EspAlignment "esp_alignment" "The ciphertext is no multiple of what its suite works in (RFC 4303 section 2.4: 4 octets at least).";
    EspPadLength "esp_pad_length" "The pad length after decryption is longer than the packet.";
    EspPadding "esp_padding" "The padding after decryption is not 1, 2, 3 and so on.";
    EspNextHeader "esp_next_header" "The next header inside ESP is not one this mode carries.";
    EspDummy "esp_dummy" "A dummy packet (next header 59), dropped as RFC 4303 section 2.6 says.";
    AhTooShort "ah_too_short" "The AH packet is shorter than its header, or than the header's length field says.";
    AhLength "ah_length" "The length field of AH is not the one that ICV and IP version of the association ask for (RFC 4302 section 2.6).";
    AhNextHeader "ah_next_header" "The next header inside AH is not one this mode carries.";
    AhHeaders "ah_headers" "More octets of options and extension headers in front of AH than it authenticates here.";
    BadOption "bad_option" "An IP option runs over the end of its header or has an impossible length.";
    RoutingHeader "routing_header" "A routing header of a type whose arrival nobody can predict (only types 0 and 2 can stand in front of AH).";
    RoutingUnfinished "routing_unfinished" "A security header behind a source route that is not at its end: this host is not the last destination.";
    BeetHeader "beet_header" "The BEET pseudo header contradicts itself (lengths, padding, options).";
    BeetNextHeader "beet_next_header" "The next header is not one that BEET mode carries.";
    BeetAddress "beet_address" "BEET mode needs the packet's addresses to be those that the association fixes.";
    Unkeyed "unkeyed" "Compressed or IP in IP and not inside an association with a key.";
    UnknownTunnel "unknown_tunnel" "IP in IP for this host inside an association, and no IP-in-IP association between these addresses.";
    UnknownCpi "unknown_cpi" "No inbound IPComp association has this CPI.";
    IpCompTooShort "ipcomp_too_short" "Shorter than an IPComp header, or nothing behind it.";
    IpCompNextHeader "ipcomp_next_header" "The next header of IPComp is not one this mode carries.";
    IpCompCorrupt "ipcomp_corrupt" "The compressed payload is not DEFLATE, ends early, or has octets behind its end.";
    IpCompBomb "ipcomp_bomb" "The compressed payload grows beyond the longest packet.";
    IpIpHeader "ipip_header" "The packet inside IP in IP is not of the version that the outer header names.";
    ChainMissing "chain_missing" "A member of the association's chain does not exist.";
    ChainDead "chain_dead" "A member of the association's chain is behind a hard limit or has no sequence number left.";
    ChainTooLong "chain_too_long" "The association's chain has more members than a packet may pass, or is a circle.";
    ChainEncapsulation "chain_encapsulation" "A member of the chain that is not the last puts its packets in UDP, which nobody opens inside an association.";
    ChainUnkeyed "chain_unkeyed" "The last member of the chain has no key: nobody would accept its packets.";
    EcnCongestion "ecn_congestion" "The outer header says congestion, the inner transport cannot be told (RFC 6040 section 4.2).";
    NotEsp "not_esp" "A datagram on the ESP port that is neither ESP nor a keepalive.";
    Keepalive "keepalive" "A NAT keepalive (one octet 0xff), dropped as RFC 3948 section 2.3 says.";
    IkeUnsupported "ike_unsupported" "An IKE message (non-ESP marker) and no key manager to give it to.";
    TransportOptions "transport_options" "IP options or a routing header, which transport mode over UDP cannot carry.";
    TransportAddress "transport_address" "Transport mode needs the packet's addresses to be those of the association.";
    Fragment "fragment" "A fragment where only a whole packet can be, or of a packet that was refused already.";
    FragmentEmpty "fragment_empty" "A fragment without content.";
    FragmentAlignment "fragment_alignment" "A fragment that is not the last and no multiple of 8 octets long.";
    FragmentTooLong "fragment_too_long" "A fragment that ends behind the longest packet there is.";
    FragmentHeader "fragment_header" "A first fragment that does not hold all headers (RFC 7112 section 5), or one that names another next header than the first.";
    FragmentOverlap "fragment_overlap" "A fragment overlaps another one of its packet: all of it is refused (RFC 5722).";
    FragmentEnd "fragment_end" "The fragments of a packet say that it ends in different places.";
    FragmentEcn "fragment_ecn" "Fragments of one packet with ECN fields that nothing right can be made of (RFC 3168 section 5.3).";
    FragmentHeld "fragment_held" "A fragment kept until its packet is complete; not a loss.";
    FragmentTimeout "fragment_timeout" "A fragment whose packet did not become complete in time.";
    FragmentLimit "fragment_limit" "A fragment for which the reassembler had no room.";
    TooBig "too_big" "The packet does not fit the tunnel's path MTU; its sender was told.";
    TooLong "too_long" "The packet does not fit one IP datagram once encapsulated.";
    NoRoom "no_room" "The buffer has no room for the headers or the trailer; its device was to leave it.";
    NestingLimit "nesting_limit" "More nested security headers than the engine opens.";
    EncapsulatedInside "encapsulated_inside" "A datagram for this host's ESP port inside an association: ESP in UDP is not opened there.";
    Scrubbed "scrubbed" "A packet of a flow that is scrubbed, ended by a rule of the scrubber; the drop names it.";
    IcmpTaken "icmp_taken" "An ICMP error about a packet of an association, accepted; not a loss.";
    IcmpRefused "icmp_refused" "An ICMP error of a type and code that the configuration does not accept.";
    IcmpUnrelated "icmp_unrelated" "An ICMP error that quotes a security header, but no outbound association has that SPI between these addresses and ports.";
    IcmpShort "icmp_short" "An ICMP error that quotes too little of its packet to see SPI and sequence number.";
    IcmpSequence "icmp_sequence" "An ICMP error that quotes a sequence number not sent yet, or sent too long ago.";
    IcmpMtu "icmp_mtu" "An ICMP error with an MTU that the quoted packet would have fitted, or that no link has.";
    IcmpRate "icmp_rate" "More ICMP errors than the engine looks at in a second.";
    IcmpQuoted "icmp_quoted" "An ICMP error inside an association that quotes a packet which the association does not carry.";
    WrongDevice "wrong_device" "A clear packet where only protected ones are accepted.";
    Backpressure "backpressure" "The kernel would not take the packet (socket or device queue full).";
    Unroutable "unroutable" "The kernel has no route to the peer.";
    HandOver "hand_over" "The packet met the moment of a hand-over between daemons.";
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
