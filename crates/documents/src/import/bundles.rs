//! Which associations of a setkey file a policy means: bundles, and `unique`.
//!
//! In setkey nothing but the policy ties associations together: it lists what is applied, the first one innermost (so
//! `esp/transport//require ah/transport//require` makes IP, AH, ESP). Here an association names the one that follows it, so
//! that each serves one bundle only. What a file leaves open is refused, with the way to say it.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use sadb::sa::SaProtocol;
use sadb::setkey::{
    AddStatement, PolicyAction, PolicyDirection, PolicyLevel, PolicyStatement, Request, Statement,
};

use super::ends::{Ends, ImportError, at, directions};
use api::Direction;

/// What the policies of a file say about its associations.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    /// The association that follows another one, by SPI and destination.
    next: HashMap<Name, Use>,
    /// The very association that a request means.
    bound: HashMap<Place, Name>,
    /// Associations that no other policy may use, and whose they are.
    claimed: HashMap<Name, u32>,
}

type Name = (sadb::Spi, IpAddr);

/// The number of a policy's statement in the file (a line may hold several), and of the request in it.
type Place = (usize, usize);

/// A policy that protects.
#[derive(Clone, Copy)]
struct Policy<'s> {
    number: usize,
    statement: &'s PolicyStatement,
    requests: &'s [Request],
}

/// How a policy uses an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    next: Option<sadb::Spi>,
    line: u32,
}

impl Bundles {
    pub fn of(statements: &[Statement], ends: Ends<'_>) -> Result<Bundles, ImportError> {
        let all: Vec<&AddStatement> = statements
            .iter()
            .filter_map(|statement| match statement {
                Statement::Add(add) => Some(add.as_ref()),
                _ => None,
            })
            .collect();
        let going = |direction| -> Vec<&AddStatement> {
            // One that goes neither way is refused later, at its own line.
            let goes = |add: &&AddStatement| directions(add, ends).is_ok_and(|d| d.contains(&direction));
            all.iter().copied().filter(goes).collect()
        };
        let policies = |outbound: bool| {
            statements.iter().enumerate().filter_map(move |(number, statement)| match statement {
                Statement::SpdAdd(policy) if (policy.direction == PolicyDirection::Out) == outbound => {
                    match &policy.action {
                        PolicyAction::Protect(requests) => {
                            Some(Policy { number, statement: policy, requests })
                        }
                        PolicyAction::Bypass | PolicyAction::Discard => None,
                    }
                }
                _ => None,
            })
        };
        let mut bundles = Bundles::default();
        let (outbound, inbound) = (going(Direction::Out), going(Direction::In));
        for policy in policies(true) {
            bundles.claim(&all, &outbound, policy)?;
        }
        for policy in policies(true).filter(|policy| policy.requests.len() > 1) {
            bundles.link(&outbound, policy)?;
        }
        for policy in policies(true) {
            if let [request] = policy.requests {
                bundles.bind(&outbound, policy, request)?;
            }
        }
        for policy in policies(false) {
            bundles.expect(&all, &inbound, policy)?;
        }
        Ok(bundles)
    }

    /// The SPI of the association that follows this one.
    pub fn next(&self, add: &AddStatement) -> Option<sadb::Spi> {
        self.next.get(&name(add))?.next
    }

    /// The very association that a request of the policy with this number means.
    pub fn bound(&self, policy: usize, request: usize) -> Option<sadb::Spi> {
        self.bound.get(&(policy, request)).map(|(spi, _)| *spi)
    }

    /// `unique`: an association that no other policy shares.
    fn claim(
        &mut self,
        all: &[&AddStatement],
        adds: &[&AddStatement],
        policy: Policy<'_>,
    ) -> Result<(), ImportError> {
        for (place, request) in policy.requests.iter().enumerate() {
            let PolicyLevel::Unique(number) = request.level else { continue };
            let fitting = self.fitting(adds, policy, place);
            let found = match number {
                // Of several the newest is used.
                Some(number) => match fitting.last() {
                    Some(add) => *add,
                    None => return Err(unfit(all, policy, place, number)),
                },
                None => {
                    // One with a number belongs to the policy that names it.
                    let mut free =
                        fitting.iter().filter(|a| a.unique.is_none() && !self.claimed.contains_key(&name(a)));
                    match free.next() {
                        Some(add) => *add,
                        // A policy without associations may get them elsewhere.
                        None if fitting.is_empty() => continue,
                        None => {
                            return Err(at(
                                policy.statement.line,
                                format!(
                                    "unique wants an association of its own, and every {} of this file that fits serves another \
                                     policy; add one more, or give one a number (-u N) and write unique:N",
                                    words(request)
                                ),
                            ));
                        }
                    }
                }
            };
            // Policies that name one number share what has it.
            self.claimed.insert(name(found), policy.statement.line);
            self.bound.insert((policy.number, place), name(found));
        }
        Ok(())
    }

    /// Inbound `unique:N`: nothing but the association with this number is accepted. Where several have it, as while keys are
    /// changed, each of them is, and the template is left to say what they must be.
    fn expect(
        &mut self,
        all: &[&AddStatement],
        adds: &[&AddStatement],
        policy: Policy<'_>,
    ) -> Result<(), ImportError> {
        for (place, request) in policy.requests.iter().enumerate() {
            let PolicyLevel::Unique(Some(number)) = request.level else { continue };
            match self.fitting(adds, policy, place).as_slice() {
                [] => return Err(unfit(all, policy, place, number)),
                // A packet that would not have become shorter comes without IPComp: an SPI would demand it.
                [_] if request.protocol == SaProtocol::IpComp => {}
                [add] => {
                    self.bound.insert((policy.number, place), name(add));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The associations that a request may mean, in the order of the file, without those that a request before it has.
    fn fitting<'s>(
        &self,
        adds: &[&'s AddStatement],
        policy: Policy<'_>,
        place: usize,
    ) -> Vec<&'s AddStatement> {
        let Some(request) = policy.requests.get(place) else { return Vec::new() };
        let ends = ends_of(policy.requests, place);
        let taken =
            |add: &AddStatement| (0..place).any(|p| self.bound.get(&(policy.number, p)) == Some(&name(add)));
        let fit = |add: &&AddStatement| fits(add, policy.statement, request, ends) && !taken(add);
        adds.iter().copied().filter(fit).collect()
    }

    /// The associations of a policy with several requests follow one another.
    fn link(&mut self, adds: &[&AddStatement], policy: Policy<'_>) -> Result<(), ImportError> {
        let Policy { statement, requests, .. } = policy;
        let Some(first) = requests.first() else { return Ok(()) };
        let mut heads: HashSet<(IpAddr, IpAddr)> = HashSet::new();
        let mine = |add: &&&AddStatement| fits(add, statement, first, None) && self.may_use(add, policy, 0);
        let firsts: Vec<_> = adds.iter().filter(mine).collect();
        // Of several between the same hosts the newest is used.
        for head in firsts.into_iter().rev() {
            if !heads.insert((head.src, head.dst)) {
                continue;
            }
            let mut members = vec![*head];
            for (place, request) in requests.iter().enumerate().skip(1) {
                // What is put around a packet goes between its ends.
                let ends = members.last().map(|add| (add.src, add.dst));
                let mut fitting = adds.iter().rev().filter(|add| fits(add, statement, request, ends));
                let found = fitting.find(|add| self.may_use(add, policy, place));
                members.push(found.ok_or_else(|| {
                    at(
                        statement.line,
                        format!(
                            "{} follows in this policy, and no add of this file is one between {} and {} that no other policy \
                             has for itself; add it",
                            words(request),
                            head.src,
                            head.dst
                        ),
                    )
                })?);
            }
            for (place, member) in members.iter().enumerate() {
                let next = members.get(place + 1).map(|add| add.spi);
                self.record(member, Use { next, line: statement.line })?;
            }
        }
        Ok(())
    }

    /// A policy with one request must not get a bundle of another, nor what belongs to another.
    fn bind(
        &mut self,
        adds: &[&AddStatement],
        policy: Policy<'_>,
        request: &Request,
    ) -> Result<(), ImportError> {
        let statement = policy.statement;
        if self.bound.contains_key(&(policy.number, 0)) {
            return Ok(());
        }
        let fitting: Vec<_> = adds.iter().filter(|add| fits(add, statement, request, None)).collect();
        let alone = |add: &&&&AddStatement| self.next(add).is_none() && self.may_use(add, policy, 0);
        let free: Vec<_> = fitting.iter().filter(alone).collect();
        match free.as_slice() {
            _ if free.len() == fitting.len() => {}
            [] => {
                let other = fitting.iter().find_map(|add| self.next.get(&name(add)).map(|used| used.line));
                let other =
                    other.or_else(|| fitting.iter().find_map(|add| self.claimed.get(&name(add)).copied()));
                return Err(at(
                    statement.line,
                    format!(
                        "every {} of this file that fits belongs to the policy of line {}, which does more with it; \
                         add one for this policy",
                        words(request),
                        other.unwrap_or_default()
                    ),
                ));
            }
            [.., newest] => {
                self.bound.insert((policy.number, 0), name(newest));
            }
        }
        Ok(())
    }

    fn may_use(&self, add: &AddStatement, policy: Policy<'_>, place: usize) -> bool {
        match self.bound.get(&(policy.number, place)) {
            Some(bound) => *bound == name(add),
            None => !self.claimed.contains_key(&name(add)),
        }
    }

    fn record(&mut self, add: &AddStatement, used: Use) -> Result<(), ImportError> {
        match self.next.insert(name(add), used) {
            Some(before) if before.next != used.next => Err(at(
                used.line,
                format!(
                    "association {} of line {} stands in another bundle in the policy of line {}; give each policy its own \
                     (-u N, and unique:N in the policy)",
                    add.spi, add.line, before.line
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// Why `unique:N` finds nothing.
fn unfit(all: &[&AddStatement], policy: Policy<'_>, place: usize, number: u32) -> ImportError {
    let line = policy.statement.line;
    let mut numbered = all.iter().filter(|add| add.unique == Some(number));
    let (Some(add), Some(request)) = (numbered.next(), policy.requests.get(place)) else {
        return at(line, format!("no add of this file has -u {number}, which unique:{number} names"));
    };
    let ends = request.ends.or(ends_of(policy.requests, place));
    let between = match ends {
        Some((src, dst)) => format!("from {src} to {dst}"),
        None => format!("from {} to {}", policy.statement.src.prefix, policy.statement.dst.prefix),
    };
    let others = if numbered.next().is_some() { " (and others)" } else { "" };
    at(
        line,
        format!(
            "unique:{number} wants {} {between} of its own, and no add with -u {number} is one: that of line {}{others} is {}/{} \
             from {} to {}; give the -u {number} to the one that is meant",
            words(request),
            add.line,
            add.protocol.name(),
            add.mode,
            add.src,
            add.dst
        ),
    )
}

fn name(add: &AddStatement) -> Name {
    (add.spi, add.dst)
}

/// The ends that the request before this one gives a packet.
fn ends_of(requests: &[Request], place: usize) -> Option<(IpAddr, IpAddr)> {
    requests.iter().take(place).rev().find_map(|request| request.ends)
}

/// Whether a request means this association. `inside`: the ends of what it is put around.
fn fits(
    add: &AddStatement,
    policy: &PolicyStatement,
    request: &Request,
    inside: Option<(IpAddr, IpAddr)>,
) -> bool {
    let between = match request.ends.or(inside) {
        Some(ends) => ends == (add.src, add.dst),
        None => policy.src.prefix.contains(add.src) && policy.dst.prefix.contains(add.dst),
    };
    let numbered = match request.level {
        PolicyLevel::Unique(Some(number)) => add.unique == Some(number),
        _ => true,
    };
    between && numbered && add.protocol == request.protocol && add.mode == request.mode
}

fn words(request: &Request) -> String {
    format!("{}/{}", request.protocol.name(), request.mode)
}
