//! The security services that a packet has had, and those that are demanded of it.

/// The security services that a packet has had or must have (paper 001 section 2.3: the flags in the mbuf header).
///
/// A packet has one of four values, and they are in order: each is at least as good as the one before.
///
/// | value | name | what the packet has |
/// |---|---|---|
/// | 0 | [`NONE`](Self::NONE) | nothing |
/// | 1 | [`AUTHENTICATED`](Self::AUTHENTICATED) | authentication |
/// | 2 | [`CUSTOM`](Self::CUSTOM) | authentication, and encryption under a cipher of one's own |
/// | 3 | [`ENCRYPTED`](Self::ENCRYPTED) | authentication, and encryption under a standard cipher |
///
/// A demand is one of these values, and may add that it names the suite of a cipher of one's own ([`Self::named`], bit
/// 4). Encryption that is demanded so is given by [`CUSTOM`](Self::CUSTOM), too. The values are not sets of bits, so
/// nobody outside combines them by `|` and `&` (docs/design/0036).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Services(u8);

/// The bit of a demand that names the suite of a cipher of one's own.
const NAMED: u8 = 4;

/// The shift of the services of a packet, or of those that a socket asked for, in a mark.
const IN_MARK: u32 = crate::record::AUTHENTICATED.trailing_zeros();
const _: () = assert!(
    crate::record::AUTHENTICATED | crate::record::ENCRYPTED == (Services::ENCRYPTED.0 as u32) << IN_MARK
);

impl Services {
    /// The packet has no service.
    pub const NONE: Services = Services(0);
    /// The packet has data origin authentication and integrity.
    pub const AUTHENTICATED: Services = Services(1);
    /// The packet has authentication, and confidentiality that rests on a cipher of one's own. Where nothing names the
    /// suite of that cipher it counts as authentication.
    pub const CUSTOM: Services = Services(2);
    /// The packet has confidentiality, which here always comes with authentication.
    pub const ENCRYPTED: Services = Services(3);

    /// This demand, made where the suite of a cipher of one's own is named. No demand at all names none.
    #[must_use]
    pub const fn named(self) -> Services {
        if self.least().0 == 0 { Services::NONE } else { Services(self.0 | NAMED) }
    }

    /// Whether the demand is one that names the suite of a cipher of one's own.
    pub const fn is_named(self) -> bool {
        self.0 & NAMED != 0
    }

    /// The demand without the name of a suite.
    #[must_use]
    pub const fn unnamed(self) -> Services {
        Services(self.0 & !NAMED)
    }

    /// The least that a packet must have had to meet this demand. Of what a packet has had it is the value itself.
    #[must_use]
    pub const fn least(self) -> Services {
        match self.0 {
            value @ 0..=3 => Services(value),
            value => match value & !NAMED {
                // Encryption, and a cipher of one's own is named for it.
                3 => Services::CUSTOM,
                rest => Services(rest),
            },
        }
    }

    /// Whether a packet that has had `self` meets the demand `need`. Of two demands: whether `self` is at least as
    /// strict, so that whatever meets it meets `need`.
    pub const fn satisfies(self, need: Services) -> bool {
        self.least().0 >= need.least().0
    }

    /// Whether this is encryption where it is demanded: a demand for encryption, whichever cipher may give it, or the
    /// services of a packet that was encrypted under a standard cipher. [`CUSTOM`](Self::CUSTOM) alone is not, since
    /// it counts as authentication where nothing names its suite.
    pub const fn encrypts(self) -> bool {
        self.unnamed().0 == Services::ENCRYPTED.0
    }

    /// The services of a packet that has had both: those of the better member of a bundle.
    #[must_use]
    pub const fn union(self, other: Services) -> Services {
        let (own, others) = (self.least(), other.least());
        if own.0 >= others.0 { own } else { others }
    }

    /// This demand with that of a socket on top, which names no suite. Where this demand names one the whole does.
    #[must_use]
    pub const fn raised_to(self, asked: Services) -> Services {
        let (own, asked) = (self.unnamed(), asked.unnamed());
        let both = if own.0 >= asked.0 { own } else { asked };
        if self.is_named() { both.named() } else { both }
    }

    /// How these services count where `need` was demanded: those of a cipher of one's own are encryption where the
    /// demand names its suite, and authentication elsewhere.
    #[must_use]
    pub const fn counted_for(self, need: Services) -> Services {
        match self.least() {
            Services::CUSTOM if need.is_named() => Services::ENCRYPTED,
            Services::CUSTOM => Services::AUTHENTICATED,
            services => services,
        }
    }

    /// The value: 0 to 3, and 4 more for a demand that names a suite. The kernel half has the same numbers
    /// (bpf/include/abi.h).
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The bits of a mark that say that a packet has had these services ([`record`](crate::record)).
    pub const fn in_mark(self) -> u32 {
        (self.least().0 as u32) << IN_MARK
    }

    /// The services that a packet has had by its mark.
    pub const fn of_mark(mark: u32) -> Services {
        Services((mark >> IN_MARK & 3) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::Services;

    const HAS: [Services; 4] =
        [Services::NONE, Services::AUTHENTICATED, Services::CUSTOM, Services::ENCRYPTED];

    /// Every value that the methods can make.
    fn all() -> Vec<Services> {
        HAS.into_iter().chain(HAS.into_iter().skip(1).map(Services::named)).collect()
    }

    #[test]
    fn the_numbers_are_those_of_the_kernel_half() {
        assert_eq!(all().iter().map(|one| one.bits()).collect::<Vec<_>>(), [0, 1, 2, 3, 5, 6, 7]);
        assert_eq!(Services::NONE.named(), Services::NONE);
    }

    #[test]
    fn what_satisfies_what() {
        let (authentication, encryption) = (Services::AUTHENTICATED, Services::ENCRYPTED);
        // Has: nothing, authenticated, a cipher of one's own, encrypted.
        let table = [
            (Services::NONE, [true, true, true, true]),
            (authentication, [false, true, true, true]),
            (authentication.named(), [false, true, true, true]),
            (Services::CUSTOM, [false, false, true, true]),
            (Services::CUSTOM.named(), [false, false, true, true]),
            (encryption, [false, false, false, true]),
            (encryption.named(), [false, false, true, true]),
        ];
        assert_eq!(table.len(), all().len());
        for (need, expected) in table {
            for (has, expected) in HAS.into_iter().zip(expected) {
                assert_eq!(has.satisfies(need), expected, "{has:?} for {need:?}");
            }
        }
    }

    #[test]
    fn a_demand_satisfies_another_if_whatever_meets_it_meets_the_other() {
        for a in all() {
            for b in all() {
                let implied = HAS.iter().all(|has| !has.satisfies(a) || has.satisfies(b));
                assert_eq!(a.satisfies(b), implied, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn members_of_a_bundle_give_what_the_better_one_gives() {
        let [none, auth, custom, encrypted] = HAS;
        let table = [
            [none, auth, custom, encrypted],
            [auth, auth, custom, encrypted],
            [custom, custom, custom, encrypted],
            [encrypted, encrypted, encrypted, encrypted],
        ];
        for (a, row) in HAS.into_iter().zip(table) {
            for (b, expected) in HAS.into_iter().zip(row) {
                assert_eq!(a.union(b), expected, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_socket_raises_a_demand_and_takes_no_name_from_it() {
        let [none, auth, _, encrypted] = HAS;
        for (demand, asked, whole) in [
            (none, none, none),
            (none, auth, auth),
            (none, encrypted, encrypted),
            (auth, none, auth),
            (auth, encrypted, encrypted),
            (encrypted, auth, encrypted),
            (auth.named(), none, auth.named()),
            (auth.named(), auth, auth.named()),
            (auth.named(), encrypted, encrypted.named()),
            (encrypted.named(), auth, encrypted.named()),
            (encrypted.named(), encrypted, encrypted.named()),
            (auth, encrypted.named(), encrypted),
        ] {
            assert_eq!(demand.raised_to(asked), whole, "{demand:?} {asked:?}");
        }
    }

    #[test]
    fn what_counts_as_what() {
        let [none, auth, custom, encrypted] = HAS;
        for need in all() {
            let own = if need.is_named() { encrypted } else { auth };
            for (has, counted) in [(none, none), (auth, auth), (custom, own), (encrypted, encrypted)] {
                assert_eq!(has.counted_for(need), counted, "{has:?} for {need:?}");
                // What counts as encryption meets the demand, and what meets a demand for it counts as such.
                let meets = has.satisfies(need);
                assert!(!need.encrypts() || (counted == encrypted) == meets, "{has:?} for {need:?}");
            }
        }
        let encrypts: Vec<_> = all().into_iter().filter(|one| one.encrypts()).collect();
        assert_eq!(encrypts, [encrypted, encrypted.named()]);
    }

    #[test]
    fn marks_carry_what_a_packet_has_had() {
        for services in HAS {
            assert_eq!(Services::of_mark(services.in_mark()), services);
            assert_eq!(Services::of_mark(!services.in_mark()).bits(), 3 - services.bits());
        }
        assert_eq!(Services::ENCRYPTED.named().in_mark(), Services::CUSTOM.in_mark());
        assert_eq!(Services::ENCRYPTED.in_mark(), crate::record::AUTHENTICATED | crate::record::ENCRYPTED);
    }
}
