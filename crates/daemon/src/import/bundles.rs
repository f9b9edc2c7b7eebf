//! Which associations of a setkey file a policy means: bundles, and `unique`.
//!
//! In setkey nothing but the policy ties associations together: it lists what is applied, the first one innermost (so
//! `esp/transport//require ah/transport//require` makes IP, AH, ESP). Here an association names the one that follows it, so
//! that each serves one bundle only. What a file leaves open is refused, with the way to say it.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use sadb::setkey::{
    AddStatement, PolicyAction, PolicyDirection, PolicyLevel, PolicyStatement, Request, Statement,
};

use super::{ImportError, at};

/// What the outbound policies of a file say about its associations.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    /// The association that follows another one, by SPI and destination.
    next: HashMap<Name, Use>,
    /// The very association that a request means, by line and place of the request.
    bound: HashMap<(u32, usize), sadb::Spi>,
    /// Associations that no other policy may use, and whose they are.
    claimed: HashMap<Name, u32>,
}

type Name = (sadb::Spi, IpAddr);

/// How a policy uses an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    next: Option<sadb::Spi>,
    line: u32,
}

impl Bundles {
    pub fn of(statements: &[Statement]) -> Result<Bundles, ImportError> {
        let adds: Vec<&AddStatement> = statements
            .iter()
            .filter_map(|statement| match statement {
                Statement::Add(add) => Some(add.as_ref()),
                _ => None,
            })
            .collect();
        let policies = || {
            statements.iter().filter_map(|statement| match statement {
                Statement::SpdAdd(policy) if policy.direction == PolicyDirection::Out => match &policy.action
                {
                    PolicyAction::Protect(requests) => Some((policy.as_ref(), requests.as_slice())),
                    PolicyAction::Bypass | PolicyAction::Discard => None,
                },
                _ => None,
            })
        };
        let mut bundles = Bundles::default();
        for (policy, requests) in policies() {
            bundles.claim(&adds, policy, requests)?;
        }
        for (policy, requests) in policies().filter(|(_, requests)| requests.len() > 1) {
            bundles.link(&adds, policy, requests)?;
        }
        for (policy, requests) in policies() {
            if let [request] = requests {
                bundles.bind(&adds, policy, request)?;
            }
        }
        Ok(bundles)
    }

    /// The SPI of the association that follows this one.
    pub fn next(&self, add: &AddStatement) -> Option<sadb::Spi> {
        self.next.get(&name(add))?.next
    }

    /// The very association that a request of the policy at `line` means.
    pub fn bound(&self, line: u32, request: usize) -> Option<sadb::Spi> {
        self.bound.get(&(line, request)).copied()
    }

    /// `unique`: an association that no other policy shares.
    fn claim(
        &mut self,
        adds: &[&AddStatement],
        policy: &PolicyStatement,
        requests: &[Request],
    ) -> Result<(), ImportError> {
        for (place, request) in requests.iter().enumerate() {
            let PolicyLevel::Unique(number) = request.level else { continue };
            let ends = ends_of(requests, place);
            let fitting = || adds.iter().filter(|add| fits(add, policy, request, ends));
            let found = match number {
                Some(number) => adds.iter().find(|add| add.unique == Some(number)),
                // One with a number belongs to the policy that names it.
                None => fitting().find(|add| add.unique.is_none() && !self.claimed.contains_key(&name(add))),
            };
            match (found, number) {
                (Some(add), _) => {
                    // Policies that name one number share what has it.
                    self.claimed.insert(name(add), policy.line);
                    self.bound.insert((policy.line, place), add.spi);
                }
                // A policy without associations may get them elsewhere.
                (None, None) if fitting().next().is_none() => {}
                (None, None) => {
                    return Err(at(
                        policy.line,
                        format!(
                            "unique wants an association of its own, and every {} of this file that fits serves another policy; \
                             add one more, or give one a number (-u N) and write unique:N",
                            words(request)
                        ),
                    ));
                }
                (None, Some(number)) => {
                    return Err(at(
                        policy.line,
                        format!("no add of this file has -u {number}, which unique:{number} names"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The associations of a policy with several requests follow one another.
    fn link(
        &mut self,
        adds: &[&AddStatement],
        policy: &PolicyStatement,
        requests: &[Request],
    ) -> Result<(), ImportError> {
        let Some(first) = requests.first() else { return Ok(()) };
        let mut heads: HashSet<(IpAddr, IpAddr)> = HashSet::new();
        let mine = |add: &&&AddStatement| fits(add, policy, first, None) && self.may_use(add, policy, 0);
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
                let mut fitting = adds.iter().rev().filter(|add| fits(add, policy, request, ends));
                let found = fitting.find(|add| self.may_use(add, policy, place));
                members.push(found.ok_or_else(|| {
                    at(
                        policy.line,
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
                self.record(member, Use { next, line: policy.line })?;
            }
        }
        Ok(())
    }

    /// A policy with one request must not get a bundle of another, nor what belongs to another.
    fn bind(
        &mut self,
        adds: &[&AddStatement],
        policy: &PolicyStatement,
        request: &Request,
    ) -> Result<(), ImportError> {
        if self.bound.contains_key(&(policy.line, 0)) {
            return Ok(());
        }
        let fitting: Vec<_> = adds.iter().filter(|add| fits(add, policy, request, None)).collect();
        let alone = |add: &&&&AddStatement| self.next(add).is_none() && self.may_use(add, policy, 0);
        let free: Vec<_> = fitting.iter().filter(alone).collect();
        match free.as_slice() {
            _ if free.len() == fitting.len() => {}
            [] => {
                let other = fitting.iter().find_map(|add| self.next.get(&name(add)).map(|used| used.line));
                let other =
                    other.or_else(|| fitting.iter().find_map(|add| self.claimed.get(&name(add)).copied()));
                return Err(at(
                    policy.line,
                    format!(
                        "every {} of this file that fits belongs to the policy of line {}, which does more with it; \
                         add one for this policy",
                        words(request),
                        other.unwrap_or_default()
                    ),
                ));
            }
            [.., newest] => {
                self.bound.insert((policy.line, 0), newest.spi);
            }
        }
        Ok(())
    }

    fn may_use(&self, add: &AddStatement, policy: &PolicyStatement, place: usize) -> bool {
        match self.bound.get(&(policy.line, place)) {
            Some(spi) => *spi == add.spi,
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
