//! Why nothing gets through: from the engine's reasons to causes, and causes in words.

use wire::DropReason;

/// Why nothing gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// No association serves the flow.
    NoAssociation,
    /// No association takes it to a multicast group.
    NoGroup,
    /// The host's routes lead by a device that is no uplink, where it is refused.
    NoUplink,
    /// What goes out is protected, and no association takes the answers.
    OneDirection,
    /// A key manager was asked and did not answer.
    AcquireUnanswered,
    /// A key manager said no.
    AcquireRefused,
    /// The association gives less than the policy demands.
    TooWeak,
    /// The association is behind a limit, or has no sequence number left.
    LimitReached,
    /// The peer's packets are dropped as replays.
    Replayed,
    /// The peer's packets have wrong integrity check values.
    NotAuthentic,
    /// Protected packets leave, and nothing comes back.
    Unanswered,
    /// This host's kernel did not send what was protected, by the number of its error.
    NotSent(Option<i32>),
    /// The engine could not protect it, for another reason.
    CannotProtect(DropReason),
}

impl Cause {
    /// Whether it is seen by packets that arrive, which anybody can send: one of them now and then shows nothing.
    pub(super) fn is_of_arrivals(self) -> bool {
        matches!(self, Cause::Replayed | Cause::NotAuthentic)
    }

    /// Whether the kernel half refused the packet.
    pub(super) fn is_of_the_kernel_half(self) -> bool {
        matches!(self, Cause::NoGroup | Cause::NoUplink)
    }

    /// Whether an association may serve the flow all the same.
    pub(super) fn is_of_the_packet(self) -> bool {
        matches!(self, Cause::CannotProtect(_))
    }

    /// Why an outbound packet that must be protected ended; `None`: it was to end.
    pub(super) fn of(reason: DropReason) -> Option<Cause> {
        Some(match reason {
            DropReason::NoSa | DropReason::NoEntry => Cause::NoAssociation,
            DropReason::HoldExpired | DropReason::HoldFull => Cause::AcquireUnanswered,
            DropReason::AcquireRefused => Cause::AcquireRefused,
            DropReason::SaTooWeak => Cause::TooWeak,
            DropReason::SequenceExhausted | DropReason::SaExpired => Cause::LimitReached,
            reason if is_harmless(reason) => return None,
            reason => Cause::CannotProtect(reason),
        })
    }
}

/// Whether a packet that the outbound thread ended for this reason was to end there, or its sender was told what to send
/// instead. Errors and other packets that arrive end in this thread, too.
fn is_harmless(reason: DropReason) -> bool {
    use DropReason as R;
    match reason {
        // Policy and the rules themselves, where they were changed meanwhile too, and a scrubber that they choose.
        R::PolicyDiscard | R::NoSpdEntry | R::RuleDiscard | R::ClearRefused | R::Disagreement => true,
        R::Unstamped | R::Scrubbed => true,
        // Nobody could read the packet.
        R::Truncated | R::BadVersion | R::BadHeader | R::HeaderLength | R::TotalLength => true,
        R::ExtensionOrder | R::Jumbogram | R::MappedAddress | R::BadChecksum | R::TooManyExtensions => true,
        R::BadRecord | R::GsoInvalid | R::BadOption => true,
        // Pieces of packets.
        R::Fragment | R::FragmentEmpty | R::FragmentAlignment | R::FragmentTooLong | R::FragmentHeader => {
            true
        }
        R::FragmentOverlap | R::FragmentEnd | R::FragmentEcn | R::FragmentHeld | R::FragmentTimeout => true,
        R::FragmentLimit => true,
        // The sender was told to send shorter ones.
        R::TooBig => true,
        // ICMP errors that came from outside.
        R::IcmpTaken | R::IcmpRefused | R::IcmpUnrelated | R::IcmpShort | R::IcmpSequence => true,
        R::IcmpMtu | R::IcmpRate | R::IcmpQuoted => true,
        // Dummies and keepalives, another daemon's packets, and what the device counts.
        R::EspDummy | R::Keepalive | R::WrongDevice | R::HandOver | R::Backpressure | R::Unroutable => true,
        // A graph dropped it as it is written there: more came than its class may have.
        R::QueueFull | R::Policed | R::EarlyDrop | R::AqmDrop | R::ShapedOut | R::AuthBudget => true,
        R::NotAdmitted | R::ComponentRefused => true,
        // A graph that cannot serve it.
        R::ClassGone | R::NoUnit => false,
        // The packet was to be protected, and could not be.
        R::PfpUnavailable | R::NoEntry | R::NoSa | R::HoldFull | R::HoldExpired | R::AcquireRefused => false,
        R::SaTooWeak | R::WrongProtocol | R::SequenceExhausted | R::SaExpired => false,
        R::RoutingHeader | R::RoutingUnfinished | R::TransportOptions | R::TransportAddress => false,
        R::TooLong | R::NoRoom | R::NestingLimit | R::EncapsulatedInside | R::IkeUnsupported => false,
        R::ChainMissing | R::ChainDead | R::ChainTooLong | R::ChainEncapsulation | R::ChainUnkeyed => false,
        // Such a reason mostly ends packets of a peer. Where one ends an outbound packet, that is a trouble.
        R::SelectorMismatch | R::InboundPolicy | R::ReservedSpi | R::UnknownSpi | R::WrongPeer => false,
        R::Replayed | R::ReplayTooOld | R::SequenceZero | R::AuthFailed | R::UnitFailed | R::NotEsp => false,
        R::EspTooShort | R::EspAlignment | R::EspPadLength | R::EspPadding | R::EspNextHeader => false,
        R::AhTooShort | R::AhLength | R::AhNextHeader | R::AhHeaders => false,
        R::BeetHeader | R::BeetNextHeader | R::BeetAddress | R::EcnCongestion => false,
        R::Unkeyed | R::UnknownTunnel | R::UnknownCpi | R::IpIpHeader => false,
        R::IpCompTooShort | R::IpCompNextHeader | R::IpCompCorrupt | R::IpCompBomb => false,
    }
}

impl Cause {
    /// The code of the problem.
    pub fn code(self) -> &'static str {
        match self {
            Cause::NoAssociation => "no_association",
            Cause::NoGroup => "no_group_association",
            Cause::NoUplink => "no_uplink",
            Cause::OneDirection => "one_direction",
            Cause::AcquireUnanswered => "acquire_unanswered",
            Cause::AcquireRefused => "acquire_refused",
            Cause::TooWeak => "weak_association",
            Cause::LimitReached => "limit_reached",
            Cause::Replayed => "replayed",
            Cause::NotAuthentic => "not_authentic",
            Cause::Unanswered => "unanswered",
            Cause::NotSent(_) => "not_sent",
            Cause::CannotProtect(_) => "cannot_protect",
        }
    }

    /// The text that says what is wrong.
    pub(crate) fn text(self) -> String {
        let text = match self {
            Cause::NoAssociation => "no association serves it",
            Cause::NoGroup => "no association takes it to the group, so its sender is refused (EPERM)",
            Cause::NoUplink => "it leaves by a device that is no uplink, where nothing would protect it",
            Cause::OneDirection => "what it sends is protected, and no inbound association takes the answers",
            Cause::AcquireUnanswered => "the key manager was asked for an association and did not answer",
            Cause::AcquireRefused => "the key manager said that there will be no association",
            Cause::TooWeak => "the association gives less than the policy demands",
            Cause::LimitReached => "the association has reached its limit",
            Cause::Replayed => "every packet of the peer is dropped as a replay",
            Cause::NotAuthentic => "every packet of the peer has a wrong integrity check value",
            Cause::Unanswered => "its packets leave protected, and nothing comes back",
            Cause::NotSent(errno) => {
                let why = errno.map_or_else(String::new, |number| {
                    format!(" ({})", std::io::Error::from_raw_os_error(number))
                });
                return format!("this host's kernel does not send the protected packets{why}");
            }
            Cause::CannotProtect(reason) => {
                return format!("it cannot be protected ({reason}: {})", reason.text().trim_end_matches('.'));
            }
        };
        text.to_owned()
    }

    /// What to do about it.
    pub(crate) fn remedy(self, explain: &str) -> String {
        let what = match self {
            Cause::NoAssociation => {
                "start the key manager, or add an association for each direction on both hosts (`ravelin sa add`)"
            }
            Cause::NoGroup => {
                "add an outbound association whose selectors hold the group (`ravelin sa add --direction out --selector-remote`), \
                 and an inbound one on its members: no key manager is asked for one"
            }
            Cause::NoUplink => {
                "`ip route get` says by which device; name that one in `uplinks` of the configuration, and restart the daemon"
            }
            Cause::OneDirection => {
                "add the inbound association (`ravelin sa add --direction in`) with the key that the peer sends by"
            }
            Cause::AcquireUnanswered => {
                "look at the key manager's log; `ravelin sa monitor` shows what it is asked"
            }
            Cause::AcquireRefused => "look at the key manager's log, here and at the peer",
            Cause::TooWeak => "`ravelin sa list` shows the suites; add an association with the demanded one",
            Cause::LimitReached => {
                "`ravelin sa replace` with new keys, or let the key manager do that at the soft limit"
            }
            Cause::Replayed => {
                "the peer counts from the beginning again: give both hosts new keys (`ravelin sa replace`)"
            }
            Cause::NotAuthentic => {
                "the keys or suites differ: compare `ravelin sa list` on both hosts, give both new keys"
            }
            Cause::Unanswered => {
                "look at the peer (`ravelin status` there): it may be down, or have no association for its answers"
            }
            Cause::NotSent(Some(libc::EPERM | libc::EACCES)) => {
                "let the firewall of this host pass the protected packets out (`nft list ruleset`; UDP port 4500, ESP and AH)"
            }
            Cause::NotSent(_) => {
                "`ip route get` says how the peer is reached; look at the route, the device, the associations' local \
                 addresses, and the firewall of this host"
            }
            Cause::CannotProtect(_) => {
                "`ravelin sa list` shows the association and its chain: give it what these packets need"
            }
        };
        format!("{what}; {explain}")
    }
}
