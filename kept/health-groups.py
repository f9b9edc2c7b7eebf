def sub(p,a,b):
    s=open(p).read(); assert a in s,(p,a); open(p,'w').write(s.replace(a,b,1))
H='crates/daemon/src/health.rs'
sub(H,'''            if !outlook.protect || now.since(trouble.last) > GIVEN_UP {
                return false;
            }
''','''            if !outlook.protect || now.since(trouble.last) > GIVEN_UP {
                return false;
            }
            // Nobody answers for a group, and which association served it is not known: it is well when nothing is refused any more.
            if trouble.cause == Cause::NoGroup {
                return now.since(trouble.last) <= GROUP_QUIET;
            }
''')
sub(H,'''    /// The flows whose outlook is to be asked for.''','''    /// The kernel half has refused a packet to a multicast group, since no association takes it there.
    pub(crate) fn refused_group(&mut self, app: AppId, group: SocketAddr, protocol: u8, now: Time) {
        if app == AppId::NONE {
            return;
        }
        let local = match group.ip() {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let flow =
            Flow { local, remote: group.ip(), local_port: 0, remote_port: group.port(), protocol, opaque: false };
        self.tried(app, flow, Cause::NoGroup, 0, now, now);
    }

    /// The flows whose outlook is to be asked for.''')
sub(H,'''                Direction::Inbound => continue,
                Direction::Outbound => {''','''                Direction::Inbound => continue,
                // A group answers nobody.
                Direction::Outbound if is_to_groups(&sample.selectors) => None,
                Direction::Outbound => {''')
sub(H,'''const GIVEN_UP: Duration = Duration::from_secs(300);
''','''const GIVEN_UP: Duration = Duration::from_secs(300);
/// As long after the last refusal a group counts as not served: shorter than the ten seconds within which what is well must be said.
const GROUP_QUIET: Duration = Duration::from_secs(8);
''')
P='crates/daemon/src/health/problem.rs'
sub(P,'''            Cause::NoAssociation => "no_association",
''','''            Cause::NoAssociation => "no_association",
            Cause::NoGroup => "no_group_association",
''')
sub(P,'''            Cause::NoAssociation => "no association serves it",
''','''            Cause::NoAssociation => "no association serves it",
            Cause::NoGroup => "no association takes it to the group, so its sender is refused (EPERM)",
''')
sub(P,'''            Cause::OneDirection => {
                "add the inbound''','''            Cause::NoGroup => {
                "add an outbound association whose selectors hold the group (`ravelin sa add --direction out --selector-remote`), \\
                 and an inbound one on its members: no key manager is asked for one"
            }
            Cause::OneDirection => {
                "add the inbound''')
D='crates/daemon/src/denials.rs'
sub(D,'''    fn note_refusal(&mut self, event: Event) {
''','''    fn note_refusal(&mut self, event: Event) {
        if event.reason == "egress_group" && !event.observed {
            self.health.refused_group(event.app, event.peer, event.protocol, netio::clock::monotonic());
        }
''')
s=open(H).read()
i=s.index('/// An application that gets nothing through to a peer.')
s=s[:i]+'''/// Whether selectors speak of multicast groups and nothing else.
fn is_to_groups(selectors: &Selectors) -> bool {
    groups_of(*selectors).any(|groups| groups.remote == selectors.remote)
}

'''+s[i:]
open(H,'w').write(s)
T='crates/daemon/src/health/tests.rs'
s=open(T).read()
s+='''
#[test]
fn a_group_that_no_association_serves_is_a_problem_until_nothing_is_refused() {
    let mut book = HealthBook::default();
    let group = |port| SocketAddr::new([239, 1, 2, 3].into(), port);
    for second in (0..=10).step_by(5) {
        book.refused_group(CURL, group(9), 17, at(second));
        // Whatever the engine says of associations: the kernel half refuses.
        book.judge(&outlook(Some(7), false), at(second));
    }
    assert_eq!(causes(&book, 10), [Cause::NoGroup]);
    book.judge(&outlook(Some(7), false), at(18));
    assert_eq!(causes(&book, 18), [Cause::NoGroup]);
    book.judge(&outlook(Some(7), false), at(19));
    assert_eq!(causes(&book, 19), []);
    // What is refused to no application is not its trouble, and one that policy protects no more has none.
    book.refused_group(AppId::NONE, group(9), 17, at(20));
    book.refused_group(CURL, group(9), 17, at(20));
    book.judge(&[Outlook { protect: false, spi: None, answered: false }], at(21));
    assert_eq!(causes(&book, 40), []);
}

#[test]
fn an_association_to_a_group_needs_none_for_answers() {
    let to = |remote: Prefix, packets| Sample {
        direction: Direction::Outbound,
        spi: Spi(7),
        peer: peer(),
        selectors: Selectors { remote, ..Selectors::ANY },
        packets,
        replayed: 0,
        forged: 0,
    };
    for (remote, expected) in [
        (Prefix::host([239, 1, 2, 3].into()), vec![]),
        (Prefix::new([224, 0, 0, 0].into(), 4).unwrap(), vec![]),
        (Prefix::host(peer()), vec![Cause::OneDirection]),
        (Prefix::ANY, vec![Cause::OneDirection]),
    ] {
        let mut book = HealthBook::default();
        for second in 0..=12 {
            book.compare(vec![to(remote, second)], at(second));
        }
        assert_eq!(causes(&book, 12), expected, "{remote}");
    }
}
'''
open(T,'w').write(s)

sub(H,"use std::net::IpAddr;","use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};")
sub(H,"use wire::{AppId, DropReason, Flow, Time};\n","use wire::{AppId, DropReason, Flow, Time};\n\nuse crate::plane::groups_of;\n")
sub(H,"    NoAssociation,\n    /// What goes","    NoAssociation,\n    /// No association takes it to a multicast group.\n    NoGroup,\n    /// What goes")
sub('crates/daemon/src/plane.rs','pub(crate) use live::{served, served_groups};','pub(crate) use live::{groups_of, served, served_groups};')
sub('crates/daemon/src/plane/live.rs','pub(super) fn groups_of','pub(crate) fn groups_of')
sub('docs/design/0013-operating-policy.md','| `no_association`, `acquire_unanswered`','| `no_group_association` | packets of the application to a multicast group are refused by the kernel half (`egress_group`) | 8 s after the last refusal |\n| `no_association`, `acquire_unanswered`')
sub('CHANGELOG.md','where no outbound association covers the group; they were swallowed by the engine.','where no outbound association covers the group; they were swallowed by the engine. Health names the application (`no_group_association`); an association to a group needs none for answers.')
