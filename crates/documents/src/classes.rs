//! The classes of the graph by their names, as documents write them.

use qos::graph::Aggregates;
use wire::AggregateId;

use crate::api_error::{ApiError, Blame};

/// The classes that documents may name.
#[derive(Clone, Debug)]
pub enum Classes {
    /// The classes of the graph in force; without a graph there is none.
    Of(Aggregates),
    /// Whoever takes the document knows them, so every name passes.
    OfWhoeverTakesIt,
}

impl Default for Classes {
    fn default() -> Classes {
        Classes::Of(Aggregates::without_graph())
    }
}

impl Classes {
    /// The number of the class with this name; the default without a name.
    ///
    /// # Errors
    /// If the graph has no such class, or there is no graph.
    pub fn number(&self, name: Option<&str>) -> Result<AggregateId, ApiError> {
        let (Some(name), Classes::Of(classes)) = (name, self) else { return Ok(AggregateId::DEFAULT) };
        if let Some(id) = classes.find(name) {
            return Ok(id);
        }
        let shown: String = name.chars().take(32).collect();
        if classes.is_empty() {
            return Err(ApiError::new(Blame::NotFound, format!("class {shown:?}: no graph is configured"))
                .remedy("leave the class out, or configure a graph that has it: [qos] in ravelin.toml"));
        }
        let near = policy::nearest(name, classes.iter().map(|(_, name)| name));
        let meant = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
        let all: Vec<&str> = classes.iter().map(|(_, name)| name).collect();
        Err(ApiError::new(Blame::NotFound, format!("the graph has no class {shown:?}"))
            .remedy(format!("{meant}it has {}; [qos] in ravelin.toml says which graph", all.join(", "))))
    }
}

/// The name of a class as documents write it; `None` for the default, of which no document says anything.
pub fn class_name(classes: &Aggregates, id: AggregateId) -> Option<String> {
    let name = || classes.name(id).map_or_else(|| format!("#{}", id.0), str::to_owned);
    (id != AggregateId::DEFAULT).then(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_found_or_refused_with_those_that_there_are() {
        let mut graph = Aggregates::default().only(|name| matches!(name, "be" | "ef"));
        let voice = graph.number("voice").unwrap();
        let classes = Classes::Of(graph);
        assert_eq!(classes.number(Some("voice")).unwrap(), voice);
        assert_eq!(classes.number(None).unwrap(), AggregateId::DEFAULT);
        for (classes, name, message, remedy) in [
            (
                &classes,
                "vioce",
                "the graph has no class \"vioce\"",
                "did you mean voice? it has be, ef, voice; [qos]",
            ),
            (
                &classes,
                "af4",
                "the graph has no class \"af4\"",
                "it has be, ef, voice; [qos] in ravelin.toml",
            ),
            (&Classes::default(), "ef", "class \"ef\": no graph is configured", "[qos] in ravelin.toml"),
        ] {
            let refused = classes.number(Some(name)).unwrap_err();
            assert_eq!((refused.message.as_str(), refused.fault), (message, Blame::NotFound));
            assert!(refused.remedy.clone().unwrap().contains(remedy), "{refused:?}");
        }
        let long = classes.number(Some(&"x".repeat(5000))).unwrap_err();
        assert!(long.message.len() < 100, "{long:?}");
        assert_eq!(Classes::OfWhoeverTakesIt.number(Some("vioce")).unwrap(), AggregateId::DEFAULT);
    }

    #[test]
    fn a_class_that_the_graph_lost_keeps_its_name() {
        let none = Aggregates::without_graph();
        assert_eq!(class_name(&none, AggregateId::DEFAULT), None);
        assert_eq!(class_name(&none, AggregateId(2)).as_deref(), Some("ef"));
        assert_eq!(class_name(&none, AggregateId(40)).as_deref(), Some("#40"));
    }
}
