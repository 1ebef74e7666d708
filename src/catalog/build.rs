//! Builds operations from `openapi.json` and its schema files.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;
use jsonschema::{Registry, Resource};
use serde_json::Value;

use super::binding;
use super::body_fields::{BodyFields, ContractFiles};
use super::contract::{BASE, Contract};
use super::files::SchemaFiles;
use super::follow::follow;
use super::operation::{
    AnswerContract, AnsweredRecord, ChargePointers, ClaimSource, Class, ErrorShape, Fees, Money, Operation, Parameter,
    Reconcile, Side, Statuses,
};
use super::read::{ContractFaults, ContractNode};
use super::refusals::RefusalLists;
use super::request_id_place::place_in_answer;
use super::template::Template;
use crate::base::digest::Fingerprint;
use crate::base::finding::{Finding, nearest};
use crate::base::ids::OperationId;
use crate::base::json::{self, Limits};

const FILE: &str = "openapi.json";
const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];
/// The other members that a path item may have.
const BESIDE_METHODS: [&str; 4] = ["summary", "description", "servers", "parameters"];

/// Returns the operations, the digest of the contract, and that of its binding part.
pub(super) fn operations(
    files: &SchemaFiles,
    enable: &[String],
) -> Result<(Vec<Operation>, Fingerprint, Fingerprint), Vec<Finding>> {
    let parsed = parsed(files)?;
    let registry = registry(&parsed)?;
    let Some((_, document)) = parsed.iter().find(|(name, _)| *name == FILE) else {
        return Err(vec![
            Finding::error(FILE, "the file is missing")
                .remedy("a contract needs openapi.json and the schema files that it names"),
        ]);
    };
    let faults = ContractFaults::new(FILE);
    let root = ContractNode::root(document, &faults);
    let operations = ContractReader {
        registry: &registry,
        files: &parsed,
        shown: Arc::new(ContractFiles::of(&parsed)),
        enable,
        shared: shared_refusals(&root),
    }
    .document(&root);
    let mut findings = faults.into_findings();
    findings.extend(unknown_names(&operations, enable));
    findings.extend(same_twice(&operations));
    if !findings.is_empty() {
        return Err(findings);
    }
    let digest = digest(&parsed, &operations);
    let binding = binding::digest(&parsed, document, &operations);
    Ok((operations, digest, binding))
}

fn digest(parsed: &[(&str, Value)], operations: &[Operation]) -> Fingerprint {
    let mut texts: Vec<String> =
        parsed.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]).collect();
    texts.extend(operations.iter().filter(|operation| operation.enabled).map(|operation| operation.id.to_string()));
    let parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    Fingerprint::of(&parts)
}

fn parsed(files: &SchemaFiles) -> Result<Vec<(&str, Value)>, Vec<Finding>> {
    let mut values = Vec::new();
    let mut findings = Vec::new();
    for (name, content) in files.schemas() {
        match json::parse(content, Limits::ANSWER) {
            Ok(value) => values.push((name, value)),
            Err(error) => findings
                .push(Finding::error(name, error.reason.to_string()).at(format!("{}:{}", error.line, error.column))),
        }
    }
    if findings.is_empty() { Ok(values) } else { Err(findings) }
}

fn registry<'v>(parsed: &'v [(&str, Value)]) -> Result<Registry<'v>, Vec<Finding>> {
    let resources =
        parsed.iter().map(|(name, value)| (format!("{BASE}{name}"), Resource::from_contents(value.clone())));
    let fault = |e: jsonschema::ReferencingError| vec![Finding::error(FILE, format!("a reference leads nowhere: {e}"))];
    Registry::new().extend(resources).map_err(fault)?.prepare().map_err(fault)
}

struct ContractReader<'r> {
    registry: &'r Registry<'r>,
    files: &'r [(&'r str, Value)],
    /// The same files, for those who ask for the fields of bodies.
    shown: Arc<ContractFiles>,
    enable: &'r [String],
    /// The lists of refusals for all operations.
    shared: RefusalLists,
}

impl ContractReader<'_> {
    fn document(&self, root: &ContractNode<'_>) -> Vec<Operation> {
        let paths = root.required("paths").map(|p| p.members()).unwrap_or_default();
        let mut operations = Vec::new();
        for (path, item) in paths {
            let Some(template) = Template::parse(path) else {
                item.note("a path is made of literals and whole `{parameters}`");
                continue;
            };
            for (word, node) in item.members() {
                if METHODS.contains(&word) {
                    operations.extend(self.operation(word, &template, &item, &node));
                } else if !BESIDE_METHODS.contains(&word) && !word.starts_with("x-") {
                    node.note(format!("`{word}` is none of {}", METHODS.join(", ")));
                }
            }
        }
        operations
    }

    fn operation(
        &self,
        method: &str,
        template: &Template,
        item: &ContractNode<'_>,
        node: &ContractNode<'_>,
    ) -> Option<Operation> {
        let id = OperationId::new(node.required("operationId")?.text()?);
        let summary = node.required("summary")?.text()?.to_owned();
        let notes = node.required("x-sluice")?;
        notes.only(&["class", "enabled", "claim", "money", "reconcile", "follow", "notExecuted", "record"]);
        let shipped_on = notes.optional("enabled").and_then(|n| n.boolean()).unwrap_or(true);
        let (path_parameters, query_parameters) = self.parameters(template, item, node);
        let class = class(&notes.required("class")?)?;
        if (class == Class::Read) != (method == "get") {
            node.note("what is read is read with GET, and nothing else is: a read may be sent a second time");
        }
        let claim = notes.optional("claim").and_then(|n| claim(&n, template));
        let own = notes.optional("notExecuted").map(|n| RefusalLists::read(&n)).unwrap_or_default();
        let body = node.optional("requestBody").and_then(|n| self.json_content(&n));
        Some(Operation {
            body_fields: body.as_ref().map(|body| BodyFields::of(self.shown.clone(), body.reference())),
            enabled: shipped_on || self.enable.iter().any(|wanted| wanted == id.as_str()),
            class,
            method: Method::from_bytes(method.to_ascii_uppercase().as_bytes()).ok()?,
            template: template.clone(),
            summary,
            path_parameters,
            query_parameters,
            body,
            answers: self.answers(node),
            answered_request_id: place_in_answer(self.files, node.value, claim.as_ref()),
            answered_record: notes.optional("record").and_then(|n| answered_record(&n, template)),
            claim,
            money: notes.optional("money").map(|n| money(&n)),
            reconcile: notes.optional("reconcile").and_then(|n| reconcile(&n)),
            follow: notes.optional("follow").and_then(|n| follow(&n)),
            further: Vec::new(),
            refusals: own.before(&self.shared),
            id,
        })
    }

    fn parameters(
        &self,
        template: &Template,
        item: &ContractNode<'_>,
        node: &ContractNode<'_>,
    ) -> (Vec<Parameter>, Vec<Parameter>) {
        let (mut path, mut query) = (Vec::new(), Vec::new());
        let shared = item.optional("parameters").map(|n| n.items()).unwrap_or_default();
        let own = node.optional("parameters").map(|n| n.items()).unwrap_or_default();
        for parameter in shared.iter().chain(&own) {
            let Some((place, read)) = self.parameter(parameter) else { continue };
            match place {
                "path" => path.push(read),
                "query" => query.push(read),
                _ => parameter.note("a parameter is `in` the path or the query"),
            }
        }
        for name in template.parameters().filter(|name| !path.iter().any(|p| p.name == **name)) {
            node.note(format!("the path parameter `{name}` is not described"));
        }
        (path, query)
    }

    fn parameter<'f>(&self, node: &ContractNode<'f>) -> Option<(&'f str, Parameter)> {
        let name = node.required("name")?.text()?.to_owned();
        let place = node.required("in")?.text()?;
        let required = node.optional("required").and_then(|n| n.boolean()).unwrap_or(false);
        let contract = self.contract(&node.required("schema")?)?;
        Some((place, Parameter { name, required, contract }))
    }

    fn answers(&self, node: &ContractNode<'_>) -> Vec<AnswerContract> {
        let responses = node.required("responses").map(|n| n.members()).unwrap_or_default();
        let answer = |(word, response): (&str, ContractNode<'_>)| {
            let Some(statuses) = statuses_of(word) else {
                response.note("a status is three digits, `2XX` or `default`");
                return None;
            };
            let contract = self.json_content(&response)?;
            let flat = contract.compile_flat(self.registry).map_err(|error| unusable(&response, &error)).ok()?;
            Some(AnswerContract { statuses, shape: shape(contract.reference(), &response), contract, flat })
        };
        responses.into_iter().filter_map(answer).collect()
    }

    /// The schema of a body or an answer.
    fn json_content(&self, node: &ContractNode<'_>) -> Option<Contract> {
        self.contract(&node.required("content")?.required("application/json")?.required("schema")?)
    }

    fn contract(&self, node: &ContractNode<'_>) -> Option<Contract> {
        let reference = match node.value.get("$ref").and_then(Value::as_str) {
            Some(target) if target.starts_with('#') => format!("{FILE}{target}"),
            Some(target) => target.to_owned(),
            None => format!("{FILE}#{}", uri_fragment(&node.place)),
        };
        match Contract::compile(self.registry, &reference) {
            Ok(contract) => Some(contract),
            Err(error) => {
                unusable(node, &error);
                None
            }
        }
    }
}

fn unusable(node: &ContractNode<'_>, error: &str) {
    node.note(format!("the schema cannot be used: {error}"));
}

/// Encodes a JSON pointer for the fragment of a URI.
fn uri_fragment(pointer: &str) -> String {
    pointer.replace('%', "%25").replace('{', "%7B").replace('}', "%7D")
}

fn class(node: &ContractNode<'_>) -> Option<Class> {
    match node.text()? {
        "read" => Some(Class::Read),
        "change" => Some(Class::Change),
        "money" => Some(Class::Money),
        _ => {
            node.note("a class is `read`, `change` or `money`");
            None
        }
    }
}

fn statuses_of(word: &str) -> Option<Statuses> {
    match (word, word.strip_suffix("XX")) {
        ("default", _) => Some(Statuses::Default),
        (_, Some(hundred)) => hundred.parse().ok().filter(|h| (1..=5).contains(h)).map(Statuses::Hundred),
        (digits, None) => digits.parse().ok().filter(|s| (100..600).contains(s)).map(Statuses::One),
    }
}

fn shape(reference: &str, response: &ContractNode<'_>) -> Option<ErrorShape> {
    let name = reference.strip_prefix("error.json#/$defs/")?;
    match name {
        "A" => Some(ErrorShape::A),
        "B" => Some(ErrorShape::B),
        "C" => Some(ErrorShape::C),
        "D" => Some(ErrorShape::D),
        "any" => None,
        _ => {
            response.note("an error shape is `A`, `B`, `C`, `D` or `any`");
            None
        }
    }
}

/// The lists of refusals for all operations: `x-sluice` of the document.
fn shared_refusals(root: &ContractNode<'_>) -> RefusalLists {
    let Some(notes) = root.optional("x-sluice") else { return RefusalLists::default() };
    notes.only(&["notExecuted"]);
    notes.optional("notExecuted").map(|n| RefusalLists::read(&n)).unwrap_or_default()
}

fn claim(node: &ContractNode<'_>, template: &Template) -> Option<ClaimSource> {
    node.only(&["body", "path"]);
    match (node.optional("body"), node.optional("path")) {
        (Some(body), None) => body.pointer().map(ClaimSource::Body),
        (None, Some(path)) => {
            let names: Vec<String> = path.items().iter().filter_map(|n| n.text()).map(str::to_owned).collect();
            for unknown in names.iter().filter(|n| !template.parameters().any(|p| p == n.as_str())) {
                path.note(format!("`{unknown}` is not a parameter of the path"));
            }
            Some(ClaimSource::Path(names))
        }
        _ => {
            node.note("a claim has either `body` or `path`");
            None
        }
    }
}

/// The record of the path that the answer is: `{"path": "offerId", "answer": "/id"}`.
fn answered_record(node: &ContractNode<'_>, template: &Template) -> Option<AnsweredRecord> {
    node.only(&["path", "answer"]);
    let path = node.required("path")?;
    let parameter = path.text()?.to_owned();
    if !template.parameters().any(|name| name == parameter) {
        path.note(format!("`{parameter}` is not a parameter of the path"));
    }
    Some(AnsweredRecord { parameter, id: node.required("answer")?.pointer()? })
}

fn money(node: &ContractNode<'_>) -> Money {
    node.only(&["source", "destination", "fees", "price", "uncovered"]);
    Money {
        source: node.optional("source").map(|n| side(&n)).unwrap_or_default(),
        destination: node.optional("destination").map(|n| side(&n)).unwrap_or_default(),
        fees: node.optional("fees").map(|n| fees(&n)).unwrap_or_default(),
        price: node.optional("price").and_then(|n| n.pointer()),
        uncovered: node.optional("uncovered").map(|n| n.pointers()).unwrap_or_default(),
    }
}

fn side(node: &ContractNode<'_>) -> Side {
    node.only(&["amount", "currency", "chain", "party", "wallet", "externalWallet", "account"]);
    let pointer = |name: &str| node.optional(name).and_then(|n| n.pointer());
    Side {
        amount: pointer("amount"),
        currency: pointer("currency"),
        chain: pointer("chain"),
        party: pointer("party"),
        wallet: pointer("wallet"),
        external_wallet: pointer("externalWallet"),
        account: pointer("account"),
    }
}

fn fees(node: &ContractNode<'_>) -> Fees {
    node.only(&["wallet", "chain", "charges"]);
    Fees {
        wallets: node.optional("wallet").map(|n| n.pointers()).unwrap_or_default(),
        chain: node.optional("chain").and_then(|n| n.pointer()),
        charges: node.optional("charges").map(|n| n.items()).unwrap_or_default().iter().filter_map(charge).collect(),
    }
}

/// `{"each": "/fees/*", "value": "/value", "kind": "/type", "flat": ["FLAT"], "percentage": ["PERCENTAGE"]}`.
fn charge(node: &ContractNode<'_>) -> Option<ChargePointers> {
    node.only(&["each", "value", "kind", "flat", "percentage", "included"]);
    let words = |name: &str| {
        let items = node.optional(name).map(|n| n.items()).unwrap_or_default();
        items.iter().filter_map(|n| n.text()).map(str::to_owned).collect()
    };
    Some(ChargePointers {
        each: node.required("each")?.pointer()?,
        value: node.required("value")?.pointer()?,
        kind: node.required("kind")?.pointer()?,
        flat: words("flat"),
        percentage: words("percentage"),
        is_included: node.optional("included").and_then(|n| n.boolean()).unwrap_or(false),
    })
}

fn reconcile(node: &ContractNode<'_>) -> Option<Reconcile> {
    node.only(&["operation", "records", "requestId", "absenceProves"]);
    Some(Reconcile {
        operation: OperationId::new(node.required("operation")?.text()?),
        records: node.required("records")?.pointer()?,
        request_id: node.required("requestId")?.pointer()?,
        absence_proves: node.required("absenceProves")?.boolean()?,
    })
}

fn unknown_names(operations: &[Operation], enable: &[String]) -> Vec<Finding> {
    let names = || operations.iter().map(|o| o.id.as_str());
    let wanted = enable.iter().map(|name| (name.as_str(), "the list of enabled operations".to_owned()));
    let read = operations
        .iter()
        .filter_map(|o| Some((o.reconcile.as_ref()?.operation.as_str(), format!("`reconcile` of `{}`", o.id))));
    let followed = operations
        .iter()
        .filter_map(|o| Some((o.follow.as_ref()?.operation.as_str(), format!("`follow` of `{}`", o.id))));
    let unknown = wanted.chain(read).chain(followed).filter(|(name, _)| !names().any(|known| known == *name));
    unknown
        .map(|(name, place)| {
            let finding =
                Finding::error(FILE, format!("{place} names `{name}`, which is not an operation of the contract"));
            match nearest(name, names()) {
                Some(near) => finding.remedy(format!("did you mean `{near}`?")),
                None => finding,
            }
        })
        .collect()
}

fn same_twice(operations: &[Operation]) -> Vec<Finding> {
    let (mut ids, mut forms, mut findings) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for operation in operations {
        if !ids.insert(operation.id.as_str()) {
            findings.push(Finding::error(FILE, format!("the operationId `{}` appears twice", operation.id)));
        }
        let form = (operation.method.as_str(), form(&operation.template));
        if !forms.insert(form) {
            findings.push(Finding::error(
                FILE,
                format!(
                    "`{} {}` differs from another path only in a parameter's name",
                    operation.method, operation.template
                ),
            ));
        }
    }
    findings
}

/// A template without the names of its parameters.
fn form(template: &Template) -> String {
    template.parameters().fold(template.to_string(), |text, name| text.replace(&format!("{{{name}}}"), "{}"))
}
