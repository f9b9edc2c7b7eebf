//! Components from outside, attached to a graph.

use super::super::chain::Link;
use super::super::fault::{Code, Fault};
use super::super::kinds::{Component, FOREIGN_BUDGET};
use super::Build;
use crate::behaviour::AggregateSet;
use crate::behaviour::foreign::{
    Absent, Foreign, ForeignSettings, Instance, Library, LibraryState, OnFault, SharedMaker,
};

/// The constant by which the secret of a component is kept apart from what else comes of the graph's seed.
const SECRET: u64 = 0x9e37_79b9_7f4a_7c15;

impl Build<'_> {
    /// A component of a library.
    pub(super) fn foreign(&self, component: &Component) -> Result<Link, Fault> {
        let ports = component.names("ports").map(|class| self.class(&class.value)).collect();
        let settings = ForeignSettings {
            library: component.word("library").unwrap_or_default().to_owned(),
            only: component.get("class").map(|_| AggregateSet::of(&[self.own_class(component)])),
            ports,
            on_fault: match component.word("on_fault") {
                Some(word) if word == OnFault::Drop.word() => OnFault::Drop,
                _ => OnFault::Pass,
            },
            budget_ns: component.number("budget").unwrap_or(FOREIGN_BUDGET),
        };
        let instance = self.instance(component, &settings)?;
        Ok(Link::Foreign(Box::new(Foreign::new(settings, instance))))
    }

    fn instance(
        &self,
        component: &Component,
        settings: &ForeignSettings,
    ) -> Result<Box<dyn Instance>, Fault> {
        let name = &settings.library;
        let Some(Library { state: LibraryState::Loaded(SharedMaker(maker)), .. }) =
            self.house.libraries.find(name)
        else {
            if self.only_check {
                return Ok(Box::new(Absent));
            }
            return Err(Fault {
                span: component.place("library"),
                code: Code::NoLibrary,
                message: format!("the library `{name}` is not loaded here"),
                remedy: "name it in [[qos.component]] of ravelin.toml; a daemon loads it at its start, a command with \
                         --load"
                    .to_owned(),
            });
        };
        let parameters = component.word("parameters").unwrap_or_default();
        let ports = u32::try_from(settings.ports.len()).unwrap_or(0);
        let secret = self.seed.wrapping_mul(SECRET).rotate_left(31) ^ SECRET;
        maker.make(parameters, ports, secret, settings.budget_ns).map_err(|why| Fault {
            span: component.place("parameters"),
            code: Code::RefusedParameters,
            message: format!("the library `{name}` refuses these parameters: {why}"),
            remedy: "change them as the library's author says".to_owned(),
        })
    }
}
