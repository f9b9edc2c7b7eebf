//! The rules of the operator: the SPD, in both data threads and, where the kernel half acts on them, there.
//!
//! What enters: requests for the SPD. What leaves: the rules for both halves of the engine, and for the kernel half the spans by which
//! forwarded packets pass without the engine ([`crate::gateway`]) and the users whose packets go to it ([`documents::users`]). A change is in
//! force in all of them, or in none.

use std::sync::Arc;

use api::{SpdAdd, SpdRule};
use crypto::Suites;
use sadb::rules::Snapshot;
use sockmon::Span;

use super::halves::{Halves, by_rules};
use crate::classes::ClassCatalogue;
use crate::gateway::{self, HandedRules};
use crate::monitor::Monitor;
use documents::api_error::{ApiError, Blame};
use documents::rules::{RuleCounts, SpdRules};
use documents::users::users;

/// The rules in force.
#[derive(Debug)]
pub struct Rules {
    book: SpdRules,
    /// The classes that new rules may name.
    classes: ClassCatalogue,
    /// Whether packets are forwarded, so that the kernel half has spans.
    gateway: bool,
}

impl Rules {
    /// No rules yet, which may name these suites and classes; `gateway`: packets are forwarded.
    pub(crate) fn new(gateway: bool, suites: &Suites, classes: &ClassCatalogue) -> Rules {
        let book = SpdRules::naming(suites, classes.of_documents());
        Rules { book, classes: classes.clone(), gateway }
    }

    /// The number of rules.
    pub(crate) fn len(&self) -> usize {
        self.book.len()
    }

    /// The name of the rule with this number, as packets and events have it.
    pub(crate) fn name_of(&self, number: u32) -> Option<String> {
        self.book.name_of(number)
    }

    /// The rules as the data threads have them; `None`: there is no SPD.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.book.snapshot()
    }

    /// Where the peer's address alone says that a forwarded packet passes.
    pub(crate) fn spans(&self) -> Vec<Span> {
        gateway::spans(&self.book.in_order())
    }

    /// The classes that rules name, with the name of the rule.
    pub(super) fn classes_used(&self) -> impl Iterator<Item = (String, String)> {
        let named = |rule: SpdAdd| Some((rule.class?, rule.name.unwrap_or_default()));
        self.book.documents().into_iter().filter_map(named)
    }

    /// The rules, as they go to the next daemon.
    pub(super) fn handed(&self) -> Vec<u8> {
        let handed = HandedRules { gateway: self.gateway, rules: self.book.documents() };
        // Texts and numbers only: this cannot fail.
        serde_json::to_vec(&handed).unwrap_or_default()
    }

    /// The rules in order, with what each decided.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(super) async fn list(&self, halves: &Halves) -> Result<Vec<SpdRule>, ApiError> {
        let counts = |half: &mut crate::datapath::OutboundHalf| {
            (half.engine.rule_counts(), half.engine.arrival_counts())
        };
        let (outbound, arrived) = halves.ask_outbound(counts).await?;
        let mut inbound = halves.ask_inbound(|half| half.engine.rule_counts()).await?;
        gateway::add_counts(&mut inbound, &arrived);
        Ok(self.book.list(&RuleCounts { outbound, inbound }))
    }

    /// The rules of engines whose threads do not run yet.
    ///
    /// # Errors
    /// If the kernel half does not have their users, or may let more pass than they do.
    pub(super) fn put_first_in_force(&mut self, book: SpdRules, monitor: &Monitor) -> Result<(), ApiError> {
        self.narrow_spans(&book, monitor)?;
        self.book = book;
        self.set_spans(monitor);
        set_users(&self.book, monitor)
    }

    /// Add a rule to the SPD.
    ///
    /// # Errors
    /// What is wrong with it, or the data path does not take it: then nothing has changed.
    pub(super) async fn add(
        &mut self,
        request: &SpdAdd,
        halves: &Halves,
        monitor: &Monitor,
    ) -> Result<SpdRule, ApiError> {
        let mut book = self.book.clone();
        book.set_classes(self.classes.of_documents());
        let name = book.add(request)?;
        self.put_in_force(book, halves, monitor).await?;
        let added = self.book.list(&RuleCounts::default()).into_iter().find(|rule| rule.name == name);
        added.ok_or_else(|| ApiError::new(Blame::Failed, "the rule is gone already"))
    }

    /// Take out the rule of this name.
    ///
    /// # Errors
    /// If there is none, or the data path does not follow: then nothing has changed.
    pub(super) async fn delete(
        &mut self,
        name: &str,
        halves: &Halves,
        monitor: &Monitor,
    ) -> Result<SpdRule, ApiError> {
        let mut book = self.book.clone();
        book.remove(name)?;
        let before = self.list(halves).await?;
        self.put_in_force(book, halves, monitor).await?;
        let gone = before.into_iter().find(|rule| rule.name == name);
        gone.ok_or_else(|| ApiError::new(Blame::NotFound, format!("there is no rule {name:?}")))
    }

    /// Take out every rule: from then on there is no SPD.
    ///
    /// # Errors
    /// If the data path does not follow: then nothing has changed.
    pub(super) async fn flush(
        &mut self,
        halves: &Halves,
        monitor: &Monitor,
    ) -> Result<Vec<SpdRule>, ApiError> {
        let before = self.list(halves).await?;
        let mut book = self.book.clone();
        book.clear();
        self.put_in_force(book, halves, monitor).await?;
        Ok(before)
    }

    async fn put_in_force(
        &mut self,
        book: SpdRules,
        halves: &Halves,
        monitor: &Monitor,
    ) -> Result<(), ApiError> {
        // What may not pass any more stops first, what may begins last.
        let mut done = self.narrow_spans(&book, monitor);
        if done.is_ok() {
            done = self.decide_by(&book, halves, monitor).await;
        }
        if done.is_ok() {
            self.book = book;
        }
        // After an error those of before, which were narrowed.
        self.set_spans(monitor);
        done
    }

    /// Both halves of the engine have the rules, and the kernel half their users; or all have what they had.
    async fn decide_by(&self, book: &SpdRules, halves: &Halves, monitor: &Monitor) -> Result<(), ApiError> {
        let (old, new) = (self.book.snapshot(), book.snapshot());
        halves.change(by_rules(new), by_rules(old.clone())).await?;
        if let Err(refused) = set_users(book, monitor) {
            // Users of before are ruled still, by the rules of before.
            halves.insist(by_rules(old)).await?;
            set_users(&self.book, monitor)?;
            return Err(refused);
        }
        Ok(())
    }

    /// Before rules change: what they would not let pass does not pass any more.
    fn narrow_spans(&self, book: &SpdRules, monitor: &Monitor) -> Result<(), ApiError> {
        if !self.gateway {
            return Ok(());
        }
        Ok(monitor.get().narrow_spans(&gateway::spans(&book.in_order()))?)
    }

    /// After rules changed: what they let pass, passes. What the kernel half does not take, the engine decides about.
    fn set_spans(&self, monitor: &Monitor) {
        if self.gateway
            && let Err(error) = monitor.get().set_spans(&self.spans())
        {
            let refused = ApiError::from(error);
            tracing::warn!("what the rules bypass by address alone goes through the engine: {refused}");
        }
    }
}

/// The engine has these rules: the users that they name, and no others, are its matter.
///
/// # Errors
/// If the kernel half does not take it; then users of before are the engine's matter still.
fn set_users(book: &SpdRules, monitor: &Monitor) -> Result<(), ApiError> {
    Ok(monitor.get().set_users(&users(&book.in_order()))?)
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use api::{SpdDirection, Verdict};

    use super::*;
    use crate::handlers::tests::{Folder, plane_over};
    use crate::monitor::recorder::{Call, Recorder};

    fn request(selector: &str, action: Verdict) -> SpdAdd {
        SpdAdd {
            name: None,
            place: None,
            direction: SpdDirection::Out,
            selectors: vec![selector.to_owned()],
            action,
            service: None,
            level: None,
            bundle: Vec::new(),
            suite: None,
            scrub: None,
            class: None,
        }
    }

    #[tokio::test]
    async fn users_that_the_kernel_half_does_not_take_change_no_rule() {
        let folder = Folder::new("users");
        let recorder = Recorder::default();
        let plane = plane_over(recorder.clone(), folder.config(), None);
        let monitor = Monitor::new(recorder.clone());
        let mut rules = Rules::new(false, &Suites::standard(), &ClassCatalogue::default());
        rules.add(&request("uid 1000", Verdict::Discard), &plane.halves, &monitor).await.unwrap();
        let first = vec![RangeInclusive::new(1000, 1000)];
        assert_eq!(recorder.users(), first);
        recorder.fail(&["set_users"]);
        let (halves, also) = (&plane.halves, request("uid 2000", Verdict::Discard));
        // What was in force cannot be told again either, and that is said.
        assert!(rules.add(&also, halves, &monitor).await.is_err());
        assert_eq!((rules.len(), recorder.users()), (1, first));
        let count = |half: &mut crate::datapath::OutboundHalf| half.engine.rule_counts().len();
        assert_eq!(halves.ask_outbound(count).await, Ok(1));
        recorder.fail(&[]);
        rules.add(&also, halves, &monitor).await.unwrap();
        assert_eq!(recorder.users(), [1000..=1000, 2000..=2000]);
        rules.flush(halves, &monitor).await.unwrap();
        assert_eq!(recorder.users(), []);
    }

    #[tokio::test]
    async fn a_rule_may_name_the_classes_of_the_graph_that_is_in_force_then() {
        let folder = Folder::new("classes");
        let recorder = Recorder::default();
        let plane = plane_over(recorder.clone(), folder.config(), None);
        let monitor = Monitor::new(recorder);
        let classes = ClassCatalogue::default();
        let mut rules = Rules::new(false, &Suites::standard(), &classes);
        let halves = &plane.halves;
        let of = |class: &str| SpdAdd {
            class: Some(class.to_owned()),
            ..request("remote 192.0.2.0/24", Verdict::Bypass)
        };
        let refused = rules.add(&of("ef"), halves, &monitor).await.unwrap_err();
        assert!(refused.message.contains("no graph is configured"), "{refused:?}");
        classes.set(qos::graph::Aggregates::default().only(|name| name == "ef"));
        let added = rules.add(&of("ef"), halves, &monitor).await.unwrap();
        assert_eq!(added.class.as_deref(), Some("ef"));
        assert!(rules.add(&of("be"), halves, &monitor).await.unwrap_err().message.contains("has no class"));
        let shown = rules.list(halves).await.unwrap();
        assert_eq!((shown.len(), shown[0].class.as_deref()), (1, Some("ef")));
        assert_eq!(rules.snapshot().unwrap().iter().map(|(_, rule)| rule.class.0).collect::<Vec<_>>(), [2]);
    }

    #[tokio::test]
    async fn spans_are_narrowed_before_the_engine_has_the_rules_and_set_behind_it() {
        let folder = Folder::new("spans");
        let recorder = Recorder::default();
        let plane = plane_over(recorder.clone(), folder.config(), None);
        let monitor = Monitor::new(recorder.clone());
        let mut rules = Rules::new(true, &Suites::standard(), &ClassCatalogue::default());
        let bypass =
            SpdAdd { direction: SpdDirection::Both, ..request("remote 192.0.2.0/24", Verdict::Bypass) };
        rules.add(&bypass, &plane.halves, &monitor).await.unwrap();
        let spans = recorder.spans();
        assert_eq!((spans.len(), rules.spans()), (1, spans.clone()));
        recorder.take_calls();
        rules.flush(&plane.halves, &monitor).await.unwrap();
        let calls = [Call::NarrowSpans(Vec::new()), Call::SetUsers(Vec::new()), Call::SetSpans(Vec::new())];
        assert_eq!(recorder.take_calls(), calls);
        // A daemon that forwards nothing has no spans.
        rules = Rules::new(false, &Suites::standard(), &ClassCatalogue::default());
        rules.add(&bypass, &plane.halves, &monitor).await.unwrap();
        assert_eq!(recorder.take_calls(), [Call::SetUsers(Vec::new())]);
    }
}
