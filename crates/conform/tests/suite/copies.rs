//! The copies of schemas in docs/schema: they are of today, and what they promise is still there.

use std::collections::BTreeSet;

use api::VERSION;
use api::schema::all;
use serde_json::{Value, json};

/// The copy of a document in docs/schema.
fn copy(name: &str) -> Value {
    let path = format!("{}/../../docs/schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn words(value: &Value) -> BTreeSet<&str> {
    match value {
        Value::String(word) => [word.as_str()].into(),
        other => other.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
    }
}

/// Notes what readers of `old` would miss in `new`, or what writers of requests could not write any more.
fn compare(at: &str, old: &Value, new: &Value, is_request: bool, out: &mut Vec<String>) {
    for kind in ["type", "$ref", "const"] {
        let (was, is) = (words(&old[kind]), words(&new[kind]));
        // A request may take more than before, a document may hold less.
        let fits = if is_request { was.is_subset(&is) } else { is.is_subset(&was) };
        if !fits || was.is_empty() != is.is_empty() {
            out.push(format!("{at}: {kind} was {} and is {}", old[kind], new[kind]));
        }
    }
    let (was, is) = (words(&old["required"]), words(&new["required"]));
    let (more, less) = if is_request { (&is, &was) } else { (&was, &is) };
    for name in more.difference(less) {
        out.push(format!("{at}: {name} is {} required", if is_request { "now" } else { "no longer" }));
    }
    for children in ["properties", "$defs"] {
        for (name, was) in old[children].as_object().into_iter().flatten() {
            match new[children].get(name) {
                Some(is) => compare(&format!("{at}.{name}"), was, is, is_request, out),
                None if children == "properties" => out.push(format!("{at}.{name} is gone")),
                None => {}
            }
        }
    }
    for child in ["items", "additionalProperties"] {
        if old[child].is_object() {
            compare(&format!("{at}[]"), &old[child], &new[child], is_request, out);
        }
    }
    for choice in ["oneOf", "anyOf", "allOf"] {
        let alike = |one: &Value, other: &Value| {
            ["const", "$ref", "type"].iter().all(|kind| one[kind] == other[kind])
                && one["properties"]["event"] == other["properties"]["event"]
        };
        let choices = |schema: &Value| schema[choice].as_array().cloned().unwrap_or_default();
        let now = choices(new);
        for was in choices(old) {
            match now.iter().find(|is| alike(&was, is)) {
                Some(is) => compare(at, &was, is, is_request, out),
                None => out.push(format!("{at}: {was} is no choice any more")),
            }
        }
    }
}

fn missing(old: &Value, new: &Value, is_request: bool) -> Vec<String> {
    let mut out = Vec::new();
    compare("document", old, new, is_request, &mut out);
    out
}

#[test]
fn schemas_only_grow() {
    let folder = format!("{}/../../docs/schema", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let copies = files.filter_map(|name| name.to_str()?.strip_suffix(".json").map(str::to_owned));
    for name in copies.filter(|name| name != "openapi") {
        let named = all().find(|named| named.name == name);
        let named =
            named.unwrap_or_else(|| panic!("the schema {name} is gone, which version {VERSION} promises"));
        let gone = missing(&copy(&name), &named.schema(), name.starts_with("request-"));
        assert!(
            gone.is_empty(),
            "{name}: within version {VERSION} fields are only added\n{}",
            gone.join("\n")
        );
    }
}

#[test]
fn the_copies_are_of_today() {
    let openapi = api::openapi::document(env!("CARGO_PKG_VERSION"));
    let today = all().map(|named| (named.name, named.schema())).chain([("openapi", openapi)]);
    for (name, schema) in today {
        assert!(
            copy(name) == schema,
            "docs/schema/{name}.json is not what the types say; write it anew: cargo run -p ravelin -- schema \
             --write docs/schema"
        );
    }
}

#[test]
fn what_is_removed_or_has_another_type_is_noted() {
    let old = copy("status");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new);
        missing(&old, &new, false)
    };
    assert!(changed(&|_| ()).is_empty());
    assert!(changed(&|new| new["properties"]["more"] = json!({ "type": "string" })).is_empty());
    let gone = changed(&|new| drop(new["properties"].as_object_mut().unwrap().remove("pid")));
    assert_eq!(gone, ["document.pid is gone"]);
    assert_eq!(changed(&|new| new["properties"]["pid"]["type"] = json!("string")).len(), 1);
    let name = "/$defs/TunState/properties/name/type";
    assert_eq!(changed(&|new| *new.pointer_mut(name).unwrap() = json!("integer")).len(), 1);
    assert_eq!(changed(&|new| new["required"] = json!(["api"])).len(), words(&old["required"]).len() - 1);
    let states = "/$defs/StatusState/oneOf";
    assert_eq!(changed(&|new| drop(new.pointer_mut(states).unwrap().as_array_mut().unwrap().pop())).len(), 1);
    let old = copy("request-sa-add");
    let mut new = old.clone();
    new["required"].as_array_mut().unwrap().push(json!("app"));
    assert_eq!(missing(&old, &new, true), ["document: app is now required"]);
}

#[test]
fn every_name_is_used_once_and_every_reference_leads_somewhere() {
    let names: BTreeSet<_> = all().map(|named| named.name).collect();
    assert_eq!(names.len(), all().count());
    let openapi = api::openapi::document("0.0.0");
    let text = openapi.to_string();
    let references = text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next());
    for at in references {
        assert!(openapi.pointer(at).is_some(), "{at}");
    }
    assert!(!text.contains("$defs") && !text.contains("[`"), "{text}");
}
