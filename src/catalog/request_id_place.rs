//! Finds where an answer has the requestId of its call, from the schema of the answer.

use std::collections::VecDeque;

use serde_json::Value;

use super::operation::ClaimSource;
use crate::base::pointer::{Pointer, escape};

const FILE: &str = "openapi.json";
/// The most schemas that are searched; a schema may contain itself.
const MAX_SCHEMAS: usize = 2_000;
const COMBINATIONS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// A schema, and where in the answer its value is.
struct Located<'f> {
    file: &'f str,
    schema: &'f Value,
    place: String,
}

/// Returns the place of the requestId in a successful answer: the first property, outermost first, with the name that
/// the requestId has in the request. Where the schema has none, an answer could repeat it where the request has it.
pub(super) fn place_in_answer(
    files: &[(&str, Value)],
    operation: &Value,
    claim: Option<&ClaimSource>,
) -> Option<Pointer> {
    let Some(ClaimSource::Body(asked)) = claim else { return None };
    let (_, name) = asked.as_str().rsplit_once('/')?;
    let found = success(operation).and_then(|schema| search(files, schema, name));
    found.and_then(|place| Pointer::parse(&place)).or_else(|| Some(asked.clone()))
}

/// The schema of the operation's successful answer.
fn success(operation: &Value) -> Option<&Value> {
    let responses = operation.get("responses")?.as_object()?;
    let (_, response) = responses.iter().find(|(status, _)| status.starts_with('2'))?;
    response.pointer("/content/application~1json/schema")
}

fn search(files: &[(&str, Value)], schema: &Value, name: &str) -> Option<String> {
    let (own, document) = files.iter().find(|(file, _)| *file == FILE)?;
    let mut waiting = VecDeque::from([Located { file: own, schema, place: String::new() }]);
    for _ in 0..MAX_SCHEMAS {
        let Located { file, schema, place } = waiting.pop_front()?;
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let (target, pointer) = reference.split_once('#').unwrap_or((reference, ""));
            let target = if target.is_empty() { file } else { target };
            let named = files.iter().find(|(file, _)| *file == target);
            let (file, content) = named.map_or((*own, document), |(file, content)| (*file, content));
            waiting.extend(content.pointer(pointer).map(|schema| Located { file, schema, place: place.clone() }));
        }
        for inner in COMBINATIONS.iter().filter_map(|word| schema.get(word)?.as_array()).flatten() {
            waiting.push_back(Located { file, schema: inner, place: place.clone() });
        }
        for (property, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let place = format!("{place}/{}", escape(property));
            if escape(property) == name {
                return Some(place);
            }
            waiting.push_back(Located { file, schema: inner, place });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::base::ids::OperationId;
    use crate::catalog::{Catalog, SchemaFiles};

    #[test]
    fn the_places_of_the_shipped_contract_are_derived() {
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        for (operation, place) in [
            ("createSwap", Some("/transferDetails/requestId")),
            ("createOfframp", Some("/transferDetails/requestId")),
            ("createSettlementRule", Some("/requestId")),
            ("acceptOffer", None),
            ("cancelSwap", None),
            ("listOfframps", None),
        ] {
            let found = &catalog.operation(&OperationId::new(operation)).unwrap().answered_request_id;
            assert_eq!(found.as_ref().map(|p| p.as_str()), place, "{operation}");
        }
        for operation in catalog.operations() {
            let Some(reconcile) = &operation.reconcile else { continue };
            assert_eq!(operation.answered_request_id.as_ref(), Some(&reconcile.request_id), "{}", operation.id);
        }
    }
}
