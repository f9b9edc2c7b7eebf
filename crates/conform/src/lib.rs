//! Compares documents with their schemas: what a command printed with `--json`, what the control API answered.
//!
//! What enters: the arguments of a command and its standard output, or a request and its answer. What leaves: nothing; a
//! document that its schema does not describe, or that no schema describes, is a panic that says where it departs. The
//! helpers by which tests run commands and ask a daemon call these functions, so that every test compares. A crate of
//! its own, because the validator and what it brings are for tests alone.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use api::operation::{Answer, OPERATIONS, Operation};
use api::schema::{self, Named};
use serde_json::{Deserializer, Value, json};

/// Compares each document that a command printed with the schema of that command, or with that of a failure. Without
/// `--json` among the arguments it looks at nothing.
///
/// # Panics
/// If a document is not as its schema says, or the command has none.
pub fn command(arguments: &[&str], printed: &str) {
    let before_end = || arguments.iter().take_while(|word| **word != "--");
    if !before_end().any(|word| *word == "--json") {
        return;
    }
    for document in Deserializer::from_str(printed).into_iter::<Value>() {
        let document = match document {
            Ok(document) => document,
            // A stream that was ended in the middle of a line.
            Err(error) if error.is_eof() => break,
            Err(error) => panic!("`ravelin {}` printed no JSON: {error}\n{printed}", arguments.join(" ")),
        };
        let names = match document.get("error") {
            Some(_) => schema::DOCUMENTS.iter().filter(|named| named.name == "command-refusal").collect(),
            None => schema::of_command(arguments),
        };
        assert!(!names.is_empty(), "`ravelin {}` prints a document that has no schema", arguments.join(" "));
        one_of(&names, &document, arguments);
    }
}

/// Compares a document with several schemas, one of which must describe it.
fn one_of(names: &[&Named], document: &Value, arguments: &[&str]) {
    let mut faults = Vec::new();
    for named in names {
        match fault(&named.schema(), document) {
            None => return,
            Some(fault) => faults.push(format!("{}: {fault}", named.name)),
        }
    }
    let (arguments, faults) = (arguments.join(" "), faults.join("\n"));
    panic!("`ravelin {arguments}` printed what its schema does not describe\n{faults}\n{document}");
}

/// Compares an answer of the control API with the description of its operation. `path` may have a query; `body` is
/// the whole body of the answer.
///
/// # Panics
/// If the answer is not as it is described, or the operation or its status is not described at all.
pub fn answer(method: &str, path: &str, status: u16, body: &str) {
    let operation = OPERATIONS.iter().find(|operation| operation.is(method, path));
    let Some(operation) = operation else {
        // What is not described must be refused.
        assert!(status == 404 || status == 405, "{method} {path} is answered ({status}) and not described");
        return described_as("refused", method, path, &refusal(), body);
    };
    let described = response(operation, status);
    match operation.answer {
        Answer::Octets(_) if status == 200 => {}
        Answer::Lines(_) if status == 200 => {
            body.lines().for_each(|line| described_as("line", method, path, &described, line));
        }
        _ => described_as(&status.to_string(), method, path, &described, body),
    }
}

fn described_as(status: &str, method: &str, path: &str, described: &Value, text: &str) {
    let document: Value = serde_json::from_str(text).unwrap_or_else(|error| {
        panic!("{method} {path} ({status}) is answered without JSON: {error}\n{text}")
    });
    if let Some(fault) = fault(described, &document) {
        panic!("{method} {path} ({status}) is answered with what is not described\n{fault}\n{document}");
    }
}

/// The schema of an operation's answer with this status, with the types that it names.
fn response(operation: &Operation, status: u16) -> Value {
    let document = openapi();
    let responses =
        &document["paths"][operation.path][operation.method.name().to_ascii_lowercase()]["responses"];
    let mut response = &responses[status.to_string()];
    if let Some(shared) = response["$ref"].as_str() {
        response = document.pointer(shared.trim_start_matches('#')).expect("a response that others name");
    }
    let (method, path) = (operation.method.name(), operation.path);
    assert!(response.is_object(), "{method} {path} does not describe an answer with status {status}");
    let content = response["content"].as_object().expect("an answer has content");
    let schema = content.values().next().map_or(&Value::Null, |content| &content["schema"]);
    with_components(schema.clone())
}

fn refusal() -> Value {
    with_components(json!({ "$ref": "#/components/schemas/Refusal" }))
}

fn with_components(schema: Value) -> Value {
    json!({ "components": openapi()["components"], "allOf": [schema] })
}

fn openapi() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| api::openapi::document("tests"))
}

/// The places where a document departs from a schema; `None` where it does not.
fn fault(schema: &Value, document: &Value) -> Option<String> {
    let validator =
        jsonschema::validator_for(schema).unwrap_or_else(|error| panic!("no schema: {error}\n{schema}"));
    let faults: Vec<String> =
        validator.iter_errors(document).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    (!faults.is_empty()).then(|| faults.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = r#"{"api":1,"name":"ravelin","version":"0.1.0","architecture":"x86_64"}"#;

    #[test]
    fn every_schema_is_one() {
        for named in schema::all() {
            jsonschema::meta::validate(&named.schema())
                .unwrap_or_else(|error| panic!("{}: {error}", named.name));
            jsonschema::validator_for(&named.schema())
                .unwrap_or_else(|error| panic!("{}: {error}", named.name));
        }
    }

    #[test]
    fn a_document_that_is_described_passes() {
        command(&["version", "--json"], VERSION);
        command(&["version"], "ravelin 0.1.0");
        command(&["status", "--json"], r#"{"api":1,"error":{"code":"unreachable","message":"m","exit":3}}"#);
        answer("GET", "/v1/debug", 200, r#"{"api":1,"filter":"info","default":"info"}"#);
        answer("DELETE", "/v1/spd/x", 404, r#"{"api":1,"error":{"code":"not_found","message":"m"}}"#);
        answer("GET", "/v1/nothing", 404, r#"{"api":1,"error":{"code":"not_found","message":"m"}}"#);
        answer("GET", "/v1/events", 200, "{\"api\":1,\"event\":\"ready\",\"acquires\":false}\n");
    }

    #[test]
    #[should_panic(expected = "api")]
    fn a_document_without_its_version_is_refused() {
        command(&["version", "--json"], &VERSION.replace("\"api\":1,", ""));
    }

    #[test]
    #[should_panic(expected = "has no schema")]
    fn a_command_without_a_schema_is_refused() {
        command(&["detach", "--json"], VERSION);
    }

    #[test]
    #[should_panic(expected = "not described")]
    fn an_answer_with_a_null_is_refused() {
        answer("GET", "/v1/debug", 200, r#"{"api":1,"filter":"info","default":"info","seconds_left":null}"#);
    }

    #[test]
    #[should_panic(expected = "does not describe")]
    fn a_status_that_is_not_described_is_refused() {
        answer("GET", "/v1/debug", 409, r#"{"api":1,"error":{"code":"conflict","message":"m"}}"#);
    }

    #[test]
    #[should_panic(expected = "is answered (200) and not described")]
    fn a_path_that_is_not_described_is_refused() {
        answer("GET", "/v1/nothing", 200, r#"{"api":1}"#);
    }
}
