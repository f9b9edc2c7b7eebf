//! The description of the control API in the form of OpenAPI 3.1, made from the table of operations and from the types.

use schemars::generate::{Contract, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::operation::{Answer, COMMON_REFUSALS, OPERATIONS, Operation, Parameter, Place};
use crate::schema;

/// The statuses of refusals.
const REFUSALS: [u16; 7] = [400, 404, 405, 409, 413, 500, 503];
/// The place of the schemas of types in the document.
const COMPONENTS: &str = "#/components/schemas/";

/// The document, as `GET /v1/openapi.json` answers. `version` is the version of the program.
pub fn document(version: &str) -> Value {
    let mut answers = schema::generator(Contract::Serialize, "/components/schemas");
    let refusal = json!({ "schema": behind_api(&answers.subschema_for::<crate::Refusal>().to_value()) });
    let refused = |status| with(meaning(status), &json!({ "application/json": refusal }));
    let responses: Map<_, _> =
        REFUSALS.map(|status| (status.to_string(), refused(status))).into_iter().collect();
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let described = describe(operation, &mut answers);
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        methods[operation.method.name().to_ascii_lowercase()] = described;
    }
    let mut schemas = answers.take_definitions(true);
    schemas.insert(
        "Api".to_owned(),
        json!({
            "description": "The field that every document begins with.",
            "type": "object",
            "properties": { "api": schema::version() },
            "required": ["api"],
        }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Control API of Ravelin",
            "description":
                "HTTP/1.1 over a Unix socket of mode 0600, /run/ravelin/INSTANCE/control.sock. Within a version of the API \
                 fields are only added; readers ignore those that they do not know, and a request with one is refused.",
            "version": version,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://ravelin", "description": "The name is any; the socket decides." }],
        "paths": paths,
        "components": { "responses": responses, "schemas": schemas },
    })
}

fn describe(operation: &Operation, answers: &mut SchemaGenerator) -> Value {
    let mut requests = schema::inlined();
    let mut parameters: Vec<Value> =
        operation.parameters.iter().map(|one| parameter(one, &mut requests)).collect();
    if let Some(query) = operation.query {
        parameters.extend(fields(&schema::plain(query(&mut requests))));
    }
    let mut responses = Map::new();
    let answered = answer(operation, answers);
    if let Answer::Health(make) = operation.answer {
        let either = json!({ "anyOf": [make(answers).to_value(), answers.subschema_for::<crate::Refusal>().to_value()] });
        let content = json!({ "application/json": { "schema": behind_api(&either) } });
        responses.insert("503".to_owned(), with("The daemon is degraded, or has too much to do.", &content));
    }
    responses.insert("200".to_owned(), with("The answer.", &answered));
    for status in COMMON_REFUSALS.iter().chain(operation.refusals) {
        let shared = json!({ "$ref": format!("#/components/responses/{status}") });
        responses.entry(status.to_string()).or_insert(shared);
    }
    let mut out = json!({
        "summary": operation.summary,
        "operationId": name(operation),
        "responses": responses,
    });
    if !parameters.is_empty() {
        out["parameters"] = parameters.into();
    }
    if let Some(body) = operation.body {
        let schema = schema::plain(body(&mut requests));
        out["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    out
}

fn with(description: &str, content: &Value) -> Value {
    json!({ "description": description, "content": content })
}

/// The content of an answer, by media type.
fn answer(operation: &Operation, answers: &mut SchemaGenerator) -> Value {
    match operation.answer {
        Answer::Document(make) | Answer::Health(make) => {
            json!({ "application/json": { "schema": behind_api(&make(answers).to_value()) } })
        }
        Answer::Lines(make) => {
            json!({ "application/x-ndjson": { "schema": behind_api(&make(answers).to_value()) } })
        }
        Answer::Octets(types) => {
            types.iter().map(|kind| ((*kind).to_owned(), json!({}))).collect::<Map<_, _>>().into()
        }
        Answer::OpenApi => json!({ "application/json": { "schema": { "type": "object" } } }),
    }
}

fn behind_api(schema: &Value) -> Value {
    json!({ "allOf": [{ "$ref": format!("{COMPONENTS}Api") }, schema] })
}

fn parameter(parameter: &Parameter, requests: &mut SchemaGenerator) -> Value {
    let (place, required) = match parameter.place {
        Place::Path => ("path", true),
        Place::Query => ("query", false),
    };
    json!({
        "name": parameter.name,
        "in": place,
        "required": required,
        "description": parameter.text,
        "schema": schema::plain((parameter.schema)(requests)),
    })
}

/// The fields of a type as parameters of a query.
fn fields(schema: &Value) -> Vec<Value> {
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let field = |(name, mut schema): (String, Value)| {
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|one| one != "null");
        }
        json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema })
    };
    properties.into_iter().map(field).collect()
}

/// A name for the operation: its method and the words of its path.
fn name(operation: &Operation) -> String {
    let words = operation.path.trim_start_matches("/v1").trim_start_matches('/').split(['/', '.']);
    let words = words.map(|word| word.trim_matches(['{', '}']));
    std::iter::once(operation.method.name().to_ascii_lowercase().as_str())
        .chain(words)
        .collect::<Vec<_>>()
        .join("_")
}

/// The meaning of the status of a refusal.
fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request contradicts itself or cannot be read.",
        404 => "What the request names is not there.",
        405 => "The path does not take this method.",
        409 => "The request does not go with what is there.",
        413 => "The request is too long.",
        503 => "The data path has too much to do.",
        _ => "The daemon or the kernel could not do it.",
    }
}
