//! A policy whose applications have left it while their executables went on under another name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use policy::Compiled;
use sadb::spd::{AppPolicy, Order};
use wire::AppId;

use super::{Candidate, Executable};
use crate::policy_store::renamed::Renamed;

/// Pairs of applications between which a path moved. What the kernel half says of the files does not show one that was
/// replaced at the same time.
pub fn moved_paths(before: &[Executable], now: &[Executable]) -> Vec<(AppId, AppId)> {
    let mut owners: BTreeMap<&Path, BTreeSet<AppId>> = BTreeMap::new();
    for now in now.iter().filter(|now| now.app != AppId::NONE) {
        owners.entry(&now.path).or_default().insert(now.app);
    }
    let mut out = Vec::new();
    for old in before.iter().filter(|old| old.app != AppId::NONE) {
        if let Some(owners) = owners.get(old.path.as_path()).filter(|owners| !owners.contains(&old.app)) {
            out.extend(owners.iter().map(|to| (old.app, *to)));
        }
    }
    out
}

impl Candidate {
    /// Let applications that are not in this policy, but whose executables went to others (`moved`: from, to), have the
    /// policy of those.
    pub fn follow(&mut self, moved: &[(AppId, AppId)]) {
        let mut all = std::mem::take(&mut self.renamed);
        for (from, to) in moved {
            all.entry(*from).or_default().insert(*to);
        }
        let applications: BTreeSet<AppId> = self.compiled.applications.iter().map(|app| app.id).collect();
        let named = |app: &AppId| applications.contains(app);
        let departed = all.keys().filter(|app| !named(app));
        self.renamed = departed
            .map(|from| (*from, successors(*from, &all, named)))
            .filter(|(_, to)| !to.is_empty())
            .collect();
        for (from, to) in &self.renamed {
            if let Some(policy) = strictest(&self.compiled, to) {
                self.compiled.spd.insert(*from, policy);
                self.compiled.spd.changing.remove(from);
                if to.iter().any(|to| self.compiled.spd.changing.contains(to)) {
                    self.compiled.spd.changing.insert(*from);
                }
            }
        }
    }
}

/// The applications of the policy that one was renamed to, in however many steps.
fn successors(from: AppId, all: &Renamed, named: impl Fn(&AppId) -> bool) -> BTreeSet<AppId> {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    let mut found = BTreeSet::new();
    while let Some(app) = open.pop() {
        for next in all.get(&app).into_iter().flatten().filter(|next| seen.insert(**next)) {
            if named(next) {
                found.insert(*next);
            } else {
                open.push(*next)
            }
        }
    }
    found
}

fn strictest(compiled: &Compiled, apps: &BTreeSet<AppId>) -> Option<Arc<AppPolicy>> {
    apps.iter()
        .filter_map(|app| compiled.spd.shared(*app))
        .reduce(|best, next| if policy::compare(next, best) == Order::Stricter { next } else { best })
        .cloned()
}

/// The pairs of an application and one that has its executables now, whose policies do not compare. Each pair counts as
/// weaker, so that a socket may go to the new application all the same.
pub fn orders(candidate: &Candidate) -> Vec<((AppId, AppId), Order)> {
    let spd = &candidate.compiled.spd;
    let pairs = candidate.renamed.iter().flat_map(|(from, to)| to.iter().map(move |to| (*from, *to)));
    let apart = |(from, to): &(AppId, AppId)| match spd.get(*from).zip(spd.get(*to)) {
        Some((a, b)) => policy::compare(a, b) == Order::Incomparable,
        None => false,
    };
    pairs.filter(apart).map(|pair| (pair, Order::Weaker)).collect()
}
