//! The control plane's verbs for the rules of the SPD: a change is in force in both data threads, or nowhere.

use api::{SpdAdd, SpdRule};

use super::Plane;
use super::halves::by_rules;
use crate::gateway;
use crate::refused::{Fault, Refused};
use crate::rules::{RuleBook, RuleCounts};

impl Plane {
    /// The rules in order, with what each decided.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub async fn rules(&self) -> Result<Vec<SpdRule>, Refused> {
        let (outbound, arrived) = self
            .halves
            .ask_outbound(|half| (half.engine.rule_counts(), half.engine.arrival_counts()))
            .await?;
        let mut inbound = self.halves.ask_inbound(|half| half.engine.rule_counts()).await?;
        gateway::add_counts(&mut inbound, &arrived);
        let counts = RuleCounts { outbound, inbound };
        Ok(self.rules.list(&counts))
    }

    /// Add a rule to the SPD.
    ///
    /// # Errors
    /// What is wrong with it, or the data path does not take it: then nothing has changed.
    pub async fn add_rule(&mut self, request: &SpdAdd) -> Result<SpdRule, Refused> {
        let mut book = self.rules.clone();
        let name = book.add(request)?;
        self.put_rules_in_force(book).await?;
        let added = self.rules.list(&RuleCounts::default()).into_iter().find(|rule| rule.name == name);
        added.ok_or_else(|| Refused::new(Fault::Failed, "the rule is gone already"))
    }

    /// Take out the rule of this name.
    ///
    /// # Errors
    /// If there is none, or the data path does not follow: then nothing has changed.
    pub async fn delete_rule(&mut self, name: &str) -> Result<SpdRule, Refused> {
        let mut book = self.rules.clone();
        book.remove(name)?;
        let before = self.rules().await?;
        self.put_rules_in_force(book).await?;
        let gone = before.into_iter().find(|rule| rule.name == name);
        gone.ok_or_else(|| Refused::new(Fault::NotFound, format!("there is no rule {name:?}")))
    }

    /// Take out every rule: from then on there is no SPD.
    ///
    /// # Errors
    /// If the data path does not follow: then nothing has changed.
    pub async fn flush_rules(&mut self) -> Result<Vec<SpdRule>, Refused> {
        let before = self.rules().await?;
        let mut book = self.rules.clone();
        book.clear();
        self.put_rules_in_force(book).await?;
        Ok(before)
    }

    async fn put_rules_in_force(&mut self, book: RuleBook) -> Result<(), Refused> {
        // What may not pass any more stops first, what may begins last.
        let mut done = self.narrow_spans(&book);
        if done.is_ok() {
            done = self.tell_rules(&book).await;
        }
        if done.is_ok() {
            self.rules = book;
        }
        // After an error those of before, which were narrowed.
        if let Err(refused) = self.set_spans() {
            tracing::warn!("what the rules bypass by address alone goes through the engine: {refused}");
        }
        done
    }

    /// To both halves of the engine, or to none.
    async fn tell_rules(&self, book: &RuleBook) -> Result<(), Refused> {
        let (old, new) = (self.rules.snapshot(), book.snapshot());
        self.halves.change(by_rules(new), by_rules(old.clone())).await?;
        if let Err(refused) = self.set_users(book) {
            // Users of before are ruled still, by the rules of before.
            self.halves.insist(by_rules(old)).await?;
            self.set_users(&self.rules)?;
            return Err(refused);
        }
        Ok(())
    }
}
