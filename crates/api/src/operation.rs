//! The operations of the control API: for each path and method the parameters, the body, the answer and the refusals.
//! The OpenAPI document is made from this table ([`crate::openapi`]), and tests compare what a daemon answers with it.

use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};

use crate::path;

/// Makes the schema of a type.
pub type Make = fn(&mut SchemaGenerator) -> Schema;

/// A method of HTTP that the API uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The method that reads.
    Get,
    /// The method that adds or starts something.
    Post,
    /// The method that changes what is there.
    Patch,
    /// The method that removes or ends something.
    Delete,
}

impl Method {
    /// The method as HTTP writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }
}

/// The place of a parameter in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The parameter is a part of the path, and must be there.
    Path,
    /// The parameter stands behind the `?`, and may be absent.
    Query,
}

/// A parameter of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name of the parameter.
    pub name: &'static str,
    /// The place of the parameter.
    pub place: Place,
    /// What the parameter selects or allows.
    pub text: &'static str,
    /// The schema of its value.
    pub schema: Make,
}

/// The form of an answer with the HTTP status 200.
#[derive(Clone, Copy)]
pub enum Answer {
    /// A document of this type, behind the field `api`.
    Document(Make),
    /// A document as in [`Answer::Document`]; the HTTP status is 503 when the daemon is degraded.
    Health(Make),
    /// Documents of this type, one a line, until the client or the daemon ends.
    Lines(Make),
    /// Octets of one of these media types.
    Octets(&'static [&'static str]),
    /// The OpenAPI document itself.
    OpenApi,
}

/// One method of one path.
#[derive(Clone, Copy)]
pub struct Operation {
    /// The method of HTTP.
    pub method: Method,
    /// The path, with parameters in braces.
    pub path: &'static str,
    /// The effect of the operation, in a few words.
    pub summary: &'static str,
    /// The parameters that stand here one by one.
    pub parameters: &'static [Parameter],
    /// The type whose fields are parameters of the query.
    pub query: Option<Make>,
    /// The type of the body.
    pub body: Option<Make>,
    /// The form of the answer.
    pub answer: Answer,
    /// The HTTP statuses of refusals beside 400, 405, 413, 500 and 503, which every operation may give.
    pub refusals: &'static [u16],
}

/// The statuses of refusals that every operation may give. Requests with keys answer 400 where they are too long (413
/// elsewhere).
pub const COMMON_REFUSALS: [u16; 5] = [400, 405, 413, 500, 503];

const fn of<T: JsonSchema>() -> Make {
    SchemaGenerator::subschema_for::<T>
}

const fn document<T: crate::schema::Document>() -> Answer {
    Answer::Document(of::<T>())
}

const fn operation(method: Method, path: &'static str, summary: &'static str, answer: Answer) -> Operation {
    Operation { method, path, summary, parameters: &[], query: None, body: None, answer, refusals: &[] }
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method.name(), self.path)
    }
}

impl Operation {
    const fn with(self, parameters: &'static [Parameter]) -> Operation {
        Operation { parameters, ..self }
    }

    const fn asked<T: JsonSchema>(self) -> Operation {
        Operation { query: Some(of::<T>()), ..self }
    }

    const fn takes<T: JsonSchema>(self) -> Operation {
        Operation { body: Some(of::<T>()), ..self }
    }

    const fn refuses(self, refusals: &'static [u16]) -> Operation {
        Operation { refusals, ..self }
    }

    /// Whether a request of this method and path is this operation. The path may have a query.
    pub fn is(&self, method: &str, path: &str) -> bool {
        let path = path.split('?').next().unwrap_or_default();
        let alike =
            |(known, asked): (&str, &str)| known == asked || (known.starts_with('{') && !asked.is_empty());
        self.method.name() == method
            && self.path.split('/').count() == path.split('/').count()
            && self.path.split('/').zip(path.split('/')).all(alike)
    }
}

const SPI: Parameter = Parameter {
    name: "spi",
    place: Place::Path,
    text: "The SPI, as `0x0000c0de` or in decimal.",
    schema: of::<crate::Spi>(),
};

const fn flag(name: &'static str, text: &'static str) -> Parameter {
    Parameter { name, place: Place::Query, text, schema: of::<bool>() }
}

const NUMBER: Parameter = Parameter {
    name: "id",
    place: Place::Path,
    text: "The number, as its list or event has it.",
    schema: of::<u64>(),
};

const ONE_SA: &[Parameter] = &[
    SPI,
    Parameter {
        name: "direction",
        place: Place::Query,
        text: "The direction, where associations of both have this SPI.",
        schema: of::<crate::Direction>(),
    },
    Parameter {
        name: "remote",
        place: Place::Query,
        text: "The address of the peer, where associations to several have this SPI.",
        schema: of::<std::net::IpAddr>(),
    },
    Parameter {
        name: "local",
        place: Place::Query,
        text: "The address of this host, where associations of several have this SPI.",
        schema: of::<std::net::IpAddr>(),
    },
];

/// Every operation of the control API, by path.
pub const OPERATIONS: &[Operation] = &[
    operation(Method::Get, path::OPENAPI, "This description", Answer::OpenApi),
    operation(Method::Get, path::STATUS, "The state of the daemon", document::<crate::Status>()),
    operation(Method::Get, path::HEALTH, "What is wrong, if anything", Answer::Health(of::<crate::Health>())),
    operation(Method::Get, path::SA, "List the associations", document::<crate::SaList>()),
    operation(Method::Post, path::SA, "Add an association", document::<crate::SaAdded>())
        .takes::<crate::SaAdd>()
        .refuses(&[404, 409]),
    operation(Method::Delete, path::SA_ONE, "Delete an association", document::<crate::SaDeleted>())
        .with(ONE_SA)
        .refuses(&[404, 409]),
    operation(Method::Patch, path::SA_ONE, "Change an association", document::<crate::SaUpdated>())
        .with(ONE_SA)
        .takes::<crate::SaUpdate>()
        .refuses(&[404, 409]),
    operation(
        Method::Post,
        path::SA_REPLACE,
        "Replace a pair of associations",
        document::<crate::SaReplaced>(),
    )
    .takes::<crate::SaReplace>()
    .refuses(&[404, 409]),
    operation(
        Method::Get,
        path::SA_EXPORT,
        "The keys of associations, in the form of Wireshark's table",
        Answer::Octets(&[path::KEYS_CONTENT_TYPE]),
    )
    .with(&[
        flag("show_keys", "Must be true: the answer holds keys in clear."),
        Parameter { place: Place::Query, text: "Restricts the answer to associations with this SPI.", ..SPI },
    ])
    .refuses(&[404]),
    operation(Method::Get, path::CAPTURE, "List the captures that run", document::<crate::CaptureList>()),
    operation(
        Method::Post,
        path::CAPTURE,
        "Capture packets in clear; the answer lasts as long as the capture",
        Answer::Octets(&["application/x-pcapng", "text/plain"]),
    )
    .takes::<crate::CaptureRequest>()
    .refuses(&[404, 409]),
    operation(Method::Delete, path::CAPTURE_ONE, "End a capture", document::<crate::CaptureStopped>())
        .with(&[NUMBER])
        .refuses(&[404]),
    operation(Method::Get, path::DEBUG, "The filter of the log", document::<crate::DebugState>()),
    operation(Method::Post, path::DEBUG, "Change the filter of the log", document::<crate::DebugState>())
        .takes::<crate::DebugRequest>()
        .refuses(&[409]),
    operation(Method::Get, path::SPD, "List the rules of the SPD", document::<crate::SpdList>()),
    operation(Method::Post, path::SPD, "Add a rule to the SPD", document::<crate::SpdAdded>())
        .takes::<crate::SpdAdd>()
        .refuses(&[404, 409]),
    operation(Method::Delete, path::SPD, "Delete every rule of the SPD", document::<crate::SpdDeleted>()),
    operation(Method::Delete, path::SPD_ONE, "Delete a rule of the SPD", document::<crate::SpdDeleted>())
        .with(&[Parameter {
            name: "name",
            place: Place::Path,
            text: "The name of the rule.",
            schema: of::<String>(),
        }])
        .refuses(&[404]),
    operation(Method::Get, path::ENTRIES, "List the entries of sockets", document::<crate::SpdEntries>())
        .refuses(&[409]),
    operation(Method::Get, path::EVENTS, "Follow the events", Answer::Lines(of::<crate::Event>()))
        .with(&[flag("acquire", "Packets wait for this listener, which is a key manager.")])
        .refuses(&[409]),
    operation(Method::Post, path::SPI, "Have an inbound SPI set aside", document::<crate::SpiAllocated>())
        .refuses(&[409]),
    operation(Method::Delete, path::SPI_ONE, "Give an SPI back", document::<crate::Released>())
        .with(&[SPI])
        .refuses(&[404]),
    operation(
        Method::Delete,
        path::ACQUIRE_ONE,
        "Refuse an acquire; packets that waited for it end",
        document::<crate::Released>(),
    )
    .with(&[NUMBER])
    .refuses(&[404]),
    operation(
        Method::Get,
        path::EXPLAIN,
        "Why flows are treated as they are",
        document::<crate::Explanation>(),
    )
    .asked::<crate::ExplainQuery>()
    .refuses(&[404, 409]),
    operation(
        Method::Get,
        path::FLOWS,
        "The flows of programs that have a policy",
        document::<crate::Flows>(),
    ),
    operation(
        Method::Get,
        path::FLOWS_COUNTED,
        "The flows as they are counted",
        document::<crate::CountedFlows>(),
    )
    .asked::<crate::CountedQuery>()
    .refuses(&[409]),
    operation(Method::Get, path::COUNTERS, "The counters", document::<crate::Counters>())
        .with(&[flag("all", "Also counters that are zero.")]),
    operation(
        Method::Get,
        path::TRAFFIC,
        "The traffic of each application",
        document::<crate::AppTrafficList>(),
    ),
    operation(Method::Post, path::POLICY_RELOAD, "Load the policy file", document::<crate::PolicyReload>())
        .with(&[
            flag("allow_empty", "Load a file that names no application, although some have a policy now."),
            flag("allow_missing", "Load a file with subjects that no program of this host matches."),
        ])
        .refuses(&[404, 409]),
    operation(Method::Post, path::POLICY_PLAN, "What a policy would change", document::<crate::PolicyPlan>())
        .takes::<crate::PolicyText>()
        .refuses(&[404, 409]),
    operation(Method::Post, path::POLICY_APPLY, "Put a policy in force", document::<crate::PolicyApplied>())
        .takes::<crate::PolicyApply>()
        .refuses(&[404, 409]),
    operation(
        Method::Post,
        path::POLICY_CONFIRM,
        "Keep the policy on trial",
        document::<crate::PolicyApplied>(),
    )
    .refuses(&[404, 409]),
    operation(
        Method::Post,
        path::POLICY_ROLLBACK,
        "Put the policy before in force again",
        document::<crate::PolicyApplied>(),
    )
    .refuses(&[404, 409]),
    operation(Method::Get, path::POLICY_NAMES, "The host names of the policy", document::<crate::NameList>())
        .refuses(&[409]),
    operation(
        Method::Get,
        path::QOS,
        "The graph of classes that is in force, and what it has done",
        document::<crate::QosState>(),
    ),
    operation(
        Method::Post,
        path::QOS_APPLY,
        "Put a graph of classes in force",
        document::<crate::QosApplied>(),
    )
    .takes::<crate::QosApply>()
    .refuses(&[404, 409]),
    operation(Method::Post, path::QOS_CONFIRM, "Keep the graph on trial", document::<crate::QosApplied>())
        .refuses(&[404, 409]),
    operation(
        Method::Post,
        path::QOS_ROLLBACK,
        "Put the graph before in force again",
        document::<crate::QosApplied>(),
    )
    .refuses(&[404, 409]),
    operation(
        Method::Get,
        path::QOS_RESERVATIONS,
        "List the reservations, and what they leave free",
        document::<crate::QosReservations>(),
    )
    .refuses(&[409]),
    operation(
        Method::Post,
        path::QOS_RESERVATIONS,
        "Reserve a rate of a class for a flow",
        document::<crate::QosReserved>(),
    )
    .takes::<crate::QosReserve>()
    .refuses(&[409]),
    operation(
        Method::Delete,
        path::QOS_RESERVATION_ONE,
        "Remove a reservation",
        document::<crate::QosReservationRemoved>(),
    )
    .with(&[NUMBER])
    .asked::<crate::QosHolder>()
    .refuses(&[404, 409]),
    operation(
        Method::Post,
        path::QOS_RESERVATION_REFRESH,
        "Let a reservation live on",
        document::<crate::QosReserved>(),
    )
    .with(&[NUMBER])
    .takes::<crate::QosRefresh>()
    .refuses(&[404, 409]),
    operation(
        Method::Get,
        path::METRICS,
        "What the graph of classes has done, for Prometheus",
        Answer::Octets(&[path::METRICS_CONTENT_TYPE]),
    ),
    operation(
        Method::Get,
        path::SCRUBBED,
        "Flows that policy wants scrubbed",
        document::<crate::ScrubbedStatus>(),
    ),
    operation(
        Method::Get,
        path::INLINE_STATUS,
        "The state of an inline scrubber, on the socket of its own",
        document::<crate::InlineStatus>(),
    ),
    operation(
        Method::Get,
        path::INLINE_RULES,
        "The rules that packets met",
        document::<crate::InlineRules>(),
    ),
    operation(
        Method::Get,
        path::INLINE_FLOWS,
        "The connections that are tracked",
        document::<crate::InlineFlows>(),
    ),
    operation(Method::Get, path::INLINE_EVENTS, "Packets that rules met", document::<crate::InlineEvents>())
        .asked::<crate::InlineQuery>(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_its_operations() {
        let paths = include_str!("path.rs").lines().filter(|line| line.starts_with("pub const"));
        let paths: Vec<&str> = paths.filter_map(|line| line.split('"').nth(1)).collect();
        for path in paths.iter().filter(|text| text.starts_with("/v1/")) {
            assert!(OPERATIONS.iter().any(|operation| operation.path == *path), "{path} has no operation");
        }
    }

    #[test]
    fn the_manual_has_every_operation() {
        let page = include_str!("../../../docs/man/ravelin.1.md");
        for operation in OPERATIONS {
            // The page has words in capitals where parameters are.
            let path = operation.path.split('{').next().unwrap_or_default();
            let named = page.contains(&format!("`{} {path}", operation.method.name()));
            // Where several paths stand in one sentence, GET may stand in front of the first alone.
            let listed = operation.method == Method::Get && page.contains(&format!("`{path}"));
            assert!(named || listed, "docs/man/ravelin.1.md lacks {} {path}", operation.method.name());
        }
    }

    #[test]
    fn a_request_is_found_by_its_method_and_path() {
        let found = |method, path| OPERATIONS.iter().filter(|one| one.is(method, path)).count();
        assert_eq!(found("DELETE", "/v1/sa/0x1000?direction=in"), 1);
        assert_eq!(found("GET", "/v1/flows/counted"), 1);
        assert_eq!(found("GET", "/v1/sa/0x1000"), 0);
        assert_eq!(found("DELETE", "/v1/sa/"), 0);
    }
}
