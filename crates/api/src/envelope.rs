//! The frame of every answer: the version, and the form of a refusal.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the API that this build speaks.
pub const VERSION: u32 = 1;

/// An answer with the API version in front.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Versioned<T> {
    /// The API version ([`VERSION`]) of the one who answers.
    pub api: u32,
    /// The answer itself; its fields stand beside `api`.
    #[serde(flatten)]
    pub body: T,
}

impl<T> Versioned<T> {
    /// Wraps an answer with this build's version.
    pub fn new(body: T) -> Self {
        Versioned { api: VERSION, body }
    }
}

/// A problem, and what to do about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// A stable word for programs: `bad_request`, `not_found`, `conflict`, `busy`, `refused` or `failed`; of a command
    /// that did not reach the daemon, `unreachable` or `not_allowed`. For a flow that gets nothing through,
    /// `no_association`, `one_direction` and others of ravelin(1).
    pub code: String,
    /// A description of what happened.
    pub message: String,
    /// What to do next about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The application that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// The rule of the SPD that it is about, by its name; `unknown` if it is not known which one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The peer that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<IpAddr>,
    /// The time since when the problem exists, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_unix_seconds: Option<u64>,
}

/// The body of an answer whose HTTP status is not 2xx.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// The problem that caused the refusal.
    pub error: Problem,
}

/// What a command prints with `--json` in place of its document when it fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandRefusal {
    /// The problem, and the exit status.
    pub error: CommandProblem,
}

/// A problem that ended a command; what reads a [`Refusal`] reads this too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandProblem {
    /// The problem itself; its fields stand beside `exit`.
    #[serde(flatten)]
    pub problem: Problem,
    /// The exit status of the command, from 1 to 5 (ravelin(1)).
    pub exit: u8,
}

/// The document that `ravelin version --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The name of the program.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// The processor architecture that the program was built for, such as `x86_64`.
    pub architecture: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_stands_beside_the_fields() {
        let refusal = Versioned::new(Refusal {
            error: Problem { code: "conflict".into(), message: "m".into(), ..Problem::default() },
        });
        let text = serde_json::to_string(&refusal).unwrap();
        assert_eq!(text, r#"{"api":1,"error":{"code":"conflict","message":"m"}}"#);
        assert_eq!(serde_json::from_str::<Versioned<Refusal>>(&text).unwrap(), refusal);
    }
    #[test]
    fn the_failure_of_a_command_is_a_refusal_with_the_exit_status() {
        let problem = Problem {
            code: "unreachable".into(),
            message: "m".into(),
            remedy: Some("r".into()),
            ..Problem::default()
        };
        let failure =
            Versioned::new(CommandRefusal { error: CommandProblem { problem: problem.clone(), exit: 3 } });
        let text = serde_json::to_string(&failure).unwrap();
        assert_eq!(text, r#"{"api":1,"error":{"code":"unreachable","message":"m","remedy":"r","exit":3}}"#);
        assert_eq!(serde_json::from_str::<Versioned<Refusal>>(&text).unwrap().body.error, problem);
    }
}
