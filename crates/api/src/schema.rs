//! JSON Schemas of every document that a command prints or the control API answers with, and of every request.
//!
//! What enters: the types of this room with their comments. What leaves: schemas of JSON Schema 2020-12, which
//! `ravelin schema` prints, packages install and docs/schema has copies of. Within a version of the API fields are only
//! added; the test `schemas_only_grow` of `conform` compares the copies with the types.

use schemars::generate::{Contract, SchemaGenerator, SchemaSettings};
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Value, json};

use crate::VERSION;

/// A type that is printed or answered as a document of its own, behind the field `api`.
pub trait Document: Serialize + JsonSchema {
    /// The name of its schema: small letters and dashes.
    const NAME: &'static str;
}

/// A schema that can be asked for by name.
#[derive(Clone, Copy)]
pub struct Named {
    /// The name: small letters and dashes.
    pub name: &'static str,
    /// The commands that print the document, with the options that it takes, as words behind `ravelin`. Empty for
    /// requests, and for answers that no command prints.
    pub commands: &'static [&'static str],
    make: fn(&'static str) -> Value,
}

impl Named {
    /// The schema, as a JSON document.
    pub fn schema(&self) -> Value {
        (self.make)(self.name)
    }
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Named").field("name", &self.name).field("commands", &self.commands).finish()
    }
}

/// Names the documents: the type, the name of its schema, and the commands that print it.
macro_rules! documents {
    ($($type:ident $name:literal [$($command:literal),*],)*) => {
        $(impl Document for crate::$type {
            const NAME: &'static str = $name;
        })*

        /// Every document, by the name of its schema.
        pub const DOCUMENTS: &[Named] =
            &[$(Named { name: $name, commands: &[$($command),*], make: document::<crate::$type> }),*];
    };
}

documents! {
    AppTrafficList "app-traffic-list" ["stats --per-app --json"],
    CaptureList "capture-list" ["capture --list --json"],
    CaptureStopped "capture-stopped" ["capture --stop --json"],
    CipherChecked "cipher-check" ["cipher check --json"],
    CipherPacked "cipher-packed" ["cipher pack --json"],
    CipherInstalled "cipher-installed" ["cipher install --json"],
    CipherMeasured "cipher-measured" ["cipher bench --json"],
    CipherCt "cipher-ct" ["cipher ct --json"],
    CipherStats "cipher-stats" ["cipher stats --json"],
    CommandRefusal "command-refusal" [],
    CountedFlows "counted-flows" ["flows --json"],
    Counters "counters" ["stats --json"],
    DebugState "debug-state" ["debug --json"],
    DemoReport "demo-report" ["demo --json"],
    Doctor "doctor" ["doctor --json"],
    Event "event" ["sa monitor", "spd monitor"],
    Explanation "explanation" ["explain --json"],
    FlowRecord "flow-record" ["flows --follow --json"],
    Flows "flows" [],
    Hardening "hardening" ["doctor --hardening --json"],
    Health "health" [],
    ImportChecked "import-checked" ["import --check --json"],
    Imported "imported" ["import --json"],
    InlineCheck "inline-check" ["inline check --json"],
    InlineEvent "inline-event" ["inline watch --json", "scrubbed watch --json"],
    InlineEvents "inline-events" ["inline explain --json", "scrubbed explain --json"],
    InlineFlows "inline-flows" ["inline flows --json", "scrubbed flows --json"],
    InlineRules "inline-rules" ["inline rules --json", "scrubbed rules --json"],
    InlineStatus "inline-status" ["inline status --json"],
    NameList "name-list" ["policy names --json"],
    PolicyApplied "policy-applied" ["policy apply --json", "policy confirm --json", "policy rollback --json"],
    PolicyCheck "policy-check" ["policy check --json"],
    PolicyExplanation "policy-explanation" ["policy explain --json"],
    PolicyPlan "policy-plan" ["policy plan --json"],
    PolicyReload "policy-reload" ["policy reload --json"],
    QosApplied "qos-applied" ["qos apply --json", "qos confirm --json", "qos rollback --json"],
    QosCheck "qos-check" ["qos check --json"],
    QosComponentChecked "qos-component-check" ["qos component check --json"],
    QosGraph "qos-graph" ["qos show --graph --json"],
    QosPacket "qos-packet" ["qos simulate --json"],
    QosPlan "qos-plan" ["qos plan --json"],
    QosPresets "qos-presets" ["qos presets --json"],
    QosReservationRemoved "qos-reservation-removed" ["qos reserve remove --json"],
    QosReservations "qos-reservations" ["qos reserve list --json"],
    QosReserved "qos-reserved" ["qos reserve add --json", "qos reserve refresh --json"],
    QosState "qos-state" ["qos show --json"],
    QosTop "qos-top" ["qos top --json"],
    QosSimulationEnd "qos-simulation-end" ["qos simulate --json"],
    Refusal "refusal" [],
    Released "released" [],
    ReplayLine "replay-line" ["replay --json"],
    ReplayEnd "replay-end" ["replay --json"],
    SaAdded "sa-added" ["sa add --json"],
    SaDeleted "sa-deleted" ["sa del --json"],
    SaList "sa-list" ["sa list --json"],
    SaReplaced "sa-replaced" ["sa replace --json"],
    SaUpdated "sa-updated" ["sa update --json"],
    ScrubEnd "scrub-end" ["scrub --json"],
    ScrubExplained "scrub-explained" ["scrub --explain --json"],
    ScrubLine "scrub-line" ["scrub --json"],
    ScrubRuleList "scrub-rule-list" ["scrub --rules --json"],
    ScrubbedStatus "scrubbed-status" ["scrubbed status --json"],
    SpdAdded "spd-added" ["spd add --json"],
    SpdDeleted "spd-deleted" ["spd del --json", "spd flush --json"],
    SpdEntries "spd-entries" ["spd list --per-socket --json"],
    SpdList "spd-list" ["spd list --json"],
    SpiAllocated "spi-allocated" [],
    Status "status" ["status --json"],
    Version "version" ["version --json"],
}

/// Names the requests: the type and the name of its schema.
macro_rules! requests {
    ($($type:ident $name:literal,)*) => {
        /// Every request of the control API that has a body.
        pub const REQUESTS: &[Named] =
            &[$(Named { name: $name, commands: &[], make: request::<crate::$type> }),*];
    };
}

requests! {
    CaptureRequest "request-capture",
    DebugRequest "request-debug",
    PolicyApply "request-policy-apply",
    QosApply "request-qos-apply",
    QosRefresh "request-qos-refresh",
    QosReserve "request-qos-reserve",
    PolicyText "request-policy-plan",
    SaAdd "request-sa-add",
    SaReplace "request-sa-replace",
    SaUpdate "request-sa-update",
    SpdAdd "request-spd-add",
}

/// Every schema: documents, then requests.
pub fn all() -> impl Iterator<Item = &'static Named> {
    DOCUMENTS.iter().chain(REQUESTS)
}

/// Another name of a command, and the name by which its documents are listed.
const ALIAS: (&str, &str) = ("counters", "stats");

/// The documents that a command prints with `--json`. The words are its arguments, options among them. Several answer
/// where options decide, or where a command prints lines of several kinds.
pub fn of_command(arguments: &[&str]) -> Vec<&'static Named> {
    let listed: Vec<&str> = match arguments.split_first() {
        Some((first, rest)) if *first == ALIAS.0 => [&[ALIAS.1], rest].concat(),
        _ => arguments.to_vec(),
    };
    let prints = |command: &&str| {
        let words = command.split(" --").next().unwrap_or(command).split(' ');
        listed.starts_with(&words.collect::<Vec<_>>())
    };
    DOCUMENTS.iter().filter(|named| named.commands.iter().any(prints)).collect()
}

/// A generator of schemas, for documents (`Serialize`) or for requests (`Deserialize`). Types that are used by others
/// stand at this place of the document.
pub(crate) fn generator(contract: Contract, definitions: &'static str) -> SchemaGenerator {
    let mut settings = SchemaSettings::draft2020_12();
    settings.contract = contract.clone();
    settings.definitions_path = definitions.into();
    settings.with_transform(Plain { contract }).into_generator()
}

/// A generator of schemas for requests that need no place for types beside them.
pub(crate) fn inlined() -> SchemaGenerator {
    let mut settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.inline_subschemas = true;
    settings.into_generator()
}

/// The schema that [`inlined`] made, as a reader of JSON needs it.
pub(crate) fn plain(mut schema: Schema) -> Value {
    Plain { contract: Contract::Deserialize }.transform(&mut schema);
    schema.to_value()
}

/// Makes of what is derived what a reader of JSON needs: text without the links of rustdoc, and no null where an absent
/// value has no field.
#[derive(Clone, Debug)]
struct Plain {
    contract: Contract,
}

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(Value::String(text)) = schema.get_mut("description") {
            *text = text.replace("[`crate::", "`").replace("[`", "`").replace("`]", "`").replace('\n', " ");
        }
        if self.contract.is_serialize() {
            without_null(schema);
        }
        transform_subschemas(self, schema);
    }
}

/// A field of a document that need not be there is left out when it has no value.
fn without_null(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (_, property) in properties.iter_mut().filter(|(name, _)| !is_required(name)) {
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|one| one != "null");
            if let [one] = types.as_slice() {
                property["type"] = one.clone();
            }
        }
        let Some(Value::Array(choices)) = property.get_mut("anyOf") else { continue };
        choices.retain(|one| one.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(one)] = choices.as_slice() {
            let one = one.clone();
            if let Some(property) = property.as_object_mut() {
                property.remove("anyOf");
                property.extend(one);
            }
        }
    }
}

/// The place of the schemas of types that a schema uses.
const DEFINITIONS: &str = "/$defs";

fn document<T: JsonSchema>(name: &'static str) -> Value {
    let mut schema = generator(Contract::Serialize, DEFINITIONS).into_root_schema_for::<T>();
    let object = schema.ensure_object();
    object.insert("$id".to_owned(), id(name));
    if let Some(properties) = object.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
        properties.insert("api".to_owned(), version());
    }
    if let Some(required) = object.entry("required").or_insert_with(|| json!([])).as_array_mut() {
        required.insert(0, json!("api"));
    }
    schema.to_value()
}

fn request<T: JsonSchema>(name: &'static str) -> Value {
    let mut schema = generator(Contract::Deserialize, DEFINITIONS).into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), id(name));
    schema.to_value()
}

fn id(name: &str) -> Value {
    json!(format!("urn:ravelin:{VERSION}:{name}"))
}

/// The schema of the field that every document begins with.
pub(crate) fn version() -> Value {
    json!({ "description": "The version of the API.", "type": "integer", "const": VERSION })
}
