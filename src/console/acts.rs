//! The table of all acts of the console: path, role, body and handler of each.
//!
//! Routing, permission checks, the names in metrics and logs, and the schemas of bodies come from this table; a test
//! compares it with the document of the API (`schemas/console.json`).

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;

use http::Method;

use super::person::{Needs, Role};
use super::request::ActRequest;
use super::server::ConsoleServer;
use super::{
    changes, decisions, foreign, freezes, history, history_export, holds, nodes, oidc, payments, policies, receipts,
    requests, session, sets, signing, stand_ins, trial_sets,
};
use crate::base::json::{self, Limits};
use crate::catalog::{Contract, SchemaFiles};
use crate::stations::admit::AdmitRefusal;
use crate::stations::hold::VoteAction;
use crate::stations::reply::{Code, Refusal, Reply, error_json, help, ok_json, refused};

/// The function that performs an act for an authorized person.
type Handler = for<'a> fn(&'a ConsoleServer, &'a ActRequest) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

/// One act of the console.
pub(super) struct Act {
    /// The `operationId`, also in metrics and logs.
    pub name: &'static str,
    /// The description of the act, in one line.
    pub summary: &'static str,
    /// A browser's session must prove its origin for everything but `GET`.
    pub method: Method,
    /// The path, in the router's notation.
    pub path: &'static str,
    /// The role that it needs.
    pub needs: Needs,
    /// The name of its body's schema; `None` if it has no body.
    pub body: Option<&'static str>,
    /// Only the console's own page may do it, whatever credentials come with the request.
    pub is_for_pages: bool,
    /// The largest body.
    pub body_bytes: usize,
    /// The query can contain any characters; the act parses it.
    pub takes_any_query: bool,
    /// The answer is a stream of events.
    pub is_stream: bool,
    pub handler: Handler,
}

/// The largest body: upstream's record of one call, with a margin.
const BODY_BYTES: usize = 256 * 1024;
/// The largest body with a set of policies, whose text is escaped in it.
const MAX_POLICY_BYTES: usize = 4 * 1024 * 1024;

const NO_TOKEN: Needs = Needs::Nothing;
const ANY_ROLE: Needs = Needs::AnyRole;
const APPROVER: Needs = Needs::Role(Role::Approver);
const OPERATOR: Needs = Needs::Role(Role::Operator);
const POLICY_ADMIN: Needs = Needs::Role(Role::PolicyAdmin);

/// A handler that takes the console's state.
macro_rules! with_state {
    ($handler:path) => {
        |server, request| Box::pin($handler(&server.inside, request))
    };
}

/// A handler that takes the console's server.
macro_rules! with_server {
    ($handler:path) => {
        |server, request| Box::pin($handler(server, request))
    };
}

/// Every act.
pub(super) static ACTS: [Act; 53] = [
    get("describe", "This document", "/sluice/v1/openapi.json", NO_TOKEN, |_, _| Box::pin(async { document() })),
    get("explainCode", "Explain an error code", "/sluice/v1/errors/{code}", NO_TOKEN, |_, request| {
        Box::pin(async move { explain_code(request) })
    }),
    post("explain", "Explain a request", "/sluice/v1/explain", ANY_ROLE, with_state!(policies::explain))
        .taking("explainRequest"),
    get("usage", "Show the usage of limits", "/sluice/v1/usage", ANY_ROLE, with_state!(policies::usage)),
    get("showPolicies", "Show policies", "/sluice/v1/policies", ANY_ROLE, with_state!(sets::show)),
    get(
        "showTable",
        "Show the largest amounts that pass",
        "/sluice/v1/policies/table",
        ANY_ROLE,
        with_state!(sets::show_table),
    ),
    post("tryPolicies", "Try a policy set", "/sluice/v1/policies/try", POLICY_ADMIN, with_state!(trial_sets::attempt))
        .taking("tryRequest")
        .up_to(MAX_POLICY_BYTES),
    post(
        "agree",
        "Agree to a waiting policy set",
        "/sluice/v1/policies/{version}/agree",
        POLICY_ADMIN,
        with_state!(sets::agree),
    )
    .taking("agreeRequest"),
    post(
        "askToAgree",
        "Ask for what a signed agreement must name",
        "/sluice/v1/policies/{version}/agree/challenge",
        POLICY_ADMIN,
        with_state!(signing::ask_to_agree),
    ),
    post(
        "recoverKeys",
        "Hand in signatures of recovery keys",
        "/sluice/v1/policies/{version}/recover",
        OPERATOR,
        with_state!(sets::recover_keys),
    )
    .taking("recoverRequest"),
    get("showMoney", "Show whether money can move", "/sluice/v1/money", ANY_ROLE, with_state!(freezes::money)),
    get("listFreezes", "List freezes", "/sluice/v1/freezes", ANY_ROLE, with_state!(freezes::list)),
    post("freeze", "Freeze money", "/sluice/v1/freezes", OPERATOR, with_server!(freezes::freeze))
        .taking("freezeRequest"),
    post("lift", "Lift a freeze", "/sluice/v1/freezes/lift", OPERATOR, with_state!(freezes::lift))
        .taking("liftRequest"),
    post(
        "askToLift",
        "Ask for what a signed lift must name",
        "/sluice/v1/freezes/lift/challenge",
        OPERATOR,
        with_state!(signing::ask_to_lift),
    )
    .taking("liftChallengeRequest"),
    get("listNodes", "List the gates", "/sluice/v1/nodes", ANY_ROLE, with_state!(nodes::list)),
    post("sayGone", "Declare a gate gone", "/sluice/v1/nodes/gone", OPERATOR, with_state!(nodes::say_gone))
        .taking("goneRequest"),
    get(
        "listRequests",
        "List calls with an unknown outcome, or in progress",
        "/sluice/v1/requests",
        ANY_ROLE,
        with_state!(requests::list),
    ),
    get(
        "showRequest",
        "Show a call",
        "/sluice/v1/requests/{environment}/{request}",
        ANY_ROLE,
        with_state!(requests::show),
    ),
    post(
        "resolveRequest",
        "Resolve an unknown outcome",
        "/sluice/v1/requests/{environment}/{request}/resolve",
        OPERATOR,
        with_state!(requests::resolve),
    )
    .taking("resolveRequest"),
    post(
        "askToResolve",
        "Ask for what a signed word on an outcome must name",
        "/sluice/v1/requests/{environment}/{request}/resolve/challenge",
        OPERATOR,
        with_state!(signing::ask_to_resolve),
    )
    .taking("resolveChallengeRequest"),
    get("listHolds", "List holds", "/sluice/v1/holds", ANY_ROLE, with_server!(holds::list)).with_any_query(),
    get("watchHolds", "Watch holds", "/sluice/v1/holds/changes", ANY_ROLE, |_, request| {
        Box::pin(async move { changes::open(request) })
    })
    .streamed(),
    get("showHold", "Show a hold", "/sluice/v1/holds/{hold}", ANY_ROLE, with_server!(holds::show)),
    get(
        "holdReceipt",
        "Get the receipt of the votes on a hold",
        "/sluice/v1/holds/{hold}/receipt",
        ANY_ROLE,
        with_server!(receipts::of_hold),
    ),
    post("approveHold", "Approve a hold", "/sluice/v1/holds/{hold}/approve", APPROVER, |server, request| {
        Box::pin(holds::vote(server, request, VoteAction::Approve))
    })
    .taking("approveRequest"),
    post(
        "askForSignature",
        "Ask for what a signed vote must name",
        "/sluice/v1/holds/{hold}/challenge",
        APPROVER,
        with_state!(signing::ask),
    )
    .taking("challengeRequest"),
    get("showSigning", "Show how votes are signed", "/sluice/v1/signing", ANY_ROLE, with_state!(signing::show)),
    post("rejectHold", "Reject a hold", "/sluice/v1/holds/{hold}/reject", APPROVER, |server, request| {
        Box::pin(holds::vote(server, request, VoteAction::Reject))
    })
    .taking("rejectRequest"),
    post("withdrawVote", "Withdraw a vote", "/sluice/v1/holds/{hold}/withdraw", APPROVER, |server, request| {
        Box::pin(holds::vote(server, request, VoteAction::Withdraw))
    })
    .taking("withdrawRequest"),
    post("commentHold", "Comment on a hold", "/sluice/v1/holds/{hold}/comment", APPROVER, |server, request| {
        Box::pin(holds::vote(server, request, VoteAction::Comment))
    })
    .taking("commentRequest"),
    get("listStandIns", "List stand-ins", "/sluice/v1/stand-ins", ANY_ROLE, with_state!(stand_ins::list)),
    post("nameStandIn", "Name a stand-in", "/sluice/v1/stand-ins", APPROVER, with_state!(stand_ins::name))
        .taking("standInRequest"),
    // The act itself checks whose it is.
    post("revokeStandIn", "Revoke a stand-in", "/sluice/v1/stand-ins/revoke", ANY_ROLE, with_state!(stand_ins::revoke))
        .taking("standInRevokeRequest"),
    get("searchHistory", "Search the history", "/sluice/v1/history", ANY_ROLE, with_server!(history::search))
        .with_any_query(),
    post(
        "exportHistory",
        "Export the history",
        "/sluice/v1/history/export",
        ANY_ROLE,
        with_server!(history_export::export),
    )
    .taking("historyExportRequest"),
    get(
        "tellRequest",
        "Show the history of a call",
        "/sluice/v1/history/{environment}/{request}",
        ANY_ROLE,
        with_server!(history::of_request),
    ),
    get(
        "countDecisions",
        "Count decisions over time",
        "/sluice/v1/decisions",
        ANY_ROLE,
        with_server!(decisions::count),
    ),
    get("listPayments", "List payments and their sums", "/sluice/v1/payments", ANY_ROLE, with_server!(payments::list))
        .with_any_query(),
    get(
        "sumPaymentsByDay",
        "Sum payments day by day",
        "/sluice/v1/payments/days",
        ANY_ROLE,
        with_server!(payments::by_day),
    ),
    get(
        "listForeignPayments",
        "List payments that no gate sent",
        "/sluice/v1/payments/foreign",
        ANY_ROLE,
        with_state!(foreign::list),
    ),
    get(
        "statePayments",
        "Show the statement of a day",
        "/sluice/v1/payments/statement",
        ANY_ROLE,
        with_server!(payments::statement),
    )
    .with_any_query(),
    post("exportPayments", "Export payments", "/sluice/v1/payments/export", ANY_ROLE, with_server!(payments::export))
        .taking("exportRequest"),
    get(
        "showPayment",
        "Show a payment",
        "/sluice/v1/payments/{environment}/{request}",
        ANY_ROLE,
        with_server!(payments::show),
    ),
    get(
        "paymentReceipt",
        "Get the receipt of a payment",
        "/sluice/v1/payments/{environment}/{request}/receipt",
        ANY_ROLE,
        with_server!(receipts::of_payment),
    ),
    get(
        "actReceipt",
        "Get the receipt of one's own act",
        "/sluice/v1/entries/{environment}/{number}/receipt",
        ANY_ROLE,
        with_server!(receipts::of_act),
    ),
    get("waysIn", "List the ways to sign in", "/sluice/v1/session/ways", NO_TOKEN, |server, _| {
        Box::pin(async move { session::ways(server) })
    }),
    // The act itself checks the cookie.
    get("showSession", "Show the session", "/sluice/v1/session", NO_TOKEN, with_server!(session::show)),
    post("signIn", "Sign in with a token", "/sluice/v1/session", NO_TOKEN, with_server!(session::sign_in))
        .taking("signInRequest")
        .for_pages(),
    delete("signOut", "Sign out", "/sluice/v1/session", NO_TOKEN, with_server!(session::sign_out)).for_pages(),
    get(
        "startSignIn",
        "Start a sign-in at the OpenID provider",
        "/sluice/v1/session/start",
        NO_TOKEN,
        with_server!(oidc::start),
    ),
    get(
        "endSignIn",
        "Complete a sign-in at the OpenID provider",
        "/sluice/v1/session/callback",
        NO_TOKEN,
        with_server!(oidc::end),
    )
    .with_any_query(),
    // The act itself checks whose it is.
    post(
        "endSessions",
        "End all sessions of a person",
        "/sluice/v1/sessions/end",
        ANY_ROLE,
        with_server!(session::end_all),
    )
    .taking("endSessionsRequest"),
];

const fn get(name: &'static str, summary: &'static str, path: &'static str, needs: Needs, handler: Handler) -> Act {
    act(Method::GET, name, summary, path, needs, handler)
}

const fn post(name: &'static str, summary: &'static str, path: &'static str, needs: Needs, handler: Handler) -> Act {
    act(Method::POST, name, summary, path, needs, handler)
}

const fn delete(name: &'static str, summary: &'static str, path: &'static str, needs: Needs, handler: Handler) -> Act {
    act(Method::DELETE, name, summary, path, needs, handler)
}

const fn act(
    method: Method,
    name: &'static str,
    summary: &'static str,
    path: &'static str,
    needs: Needs,
    handler: Handler,
) -> Act {
    let (body, is_for_pages, takes_any_query, is_stream) = (None, false, false, false);
    let body_bytes = BODY_BYTES;
    Act { name, summary, method, path, needs, body, body_bytes, is_for_pages, takes_any_query, is_stream, handler }
}

impl Act {
    const fn taking(mut self, schema: &'static str) -> Act {
        self.body = Some(schema);
        self
    }

    const fn up_to(mut self, bytes: usize) -> Act {
        self.body_bytes = bytes;
        self
    }

    const fn for_pages(mut self) -> Act {
        self.is_for_pages = true;
        self
    }

    const fn with_any_query(mut self) -> Act {
        self.takes_any_query = true;
        self
    }

    /// Whether it stops money: what others do must not use up its rate.
    pub fn stops_money(&self) -> bool {
        self.name == "freeze"
    }

    const fn streamed(mut self) -> Act {
        self.is_stream = true;
        self
    }
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (`{}`: {})", self.method, self.path, self.name, self.summary)
    }
}

/// Returns the acts of a path, in the order of the table.
pub(super) fn acts_at(path: &str) -> impl Iterator<Item = &'static Act> {
    ACTS.iter().filter(move |act| act.path == path)
}

/// Reads the contract of each body from the document, by the name of its schema.
pub(super) fn contracts() -> Result<BTreeMap<&'static str, Contract>, String> {
    let document = json::parse(SchemaFiles::of_console(), Limits::ANSWER).map_err(|e| e.to_string())?;
    let contract = |name| Ok((name, Contract::within(&document, &format!("#/components/schemas/{name}"))?));
    ACTS.iter().filter_map(|act| act.body).map(contract).collect()
}

fn document() -> Reply {
    match json::parse(SchemaFiles::of_console(), Limits::ANSWER) {
        Ok(document) => ok_json(200, &document),
        Err(_) => error_json(Code::StoreUnavailable, "the API document cannot be read.", None),
    }
}

fn explain_code(asked: &ActRequest) -> Reply {
    let unknown = || refused(&Refusal::Admit(AdmitRefusal::UnknownPath), None);
    asked.path.first().and_then(|code| help(code)).unwrap_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Method, path, name, summary, the schema of its body, and whether it needs a role.
    type Described = (String, String, String, String, Option<String>, bool);

    #[test]
    fn the_document_describes_these_acts_and_no_others() {
        let document: Value = serde_json::from_slice(SchemaFiles::of_console()).unwrap();
        let mut described: Vec<Described> = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters") {
                let schema = operation.pointer("/requestBody/content/application~1json/schema/$ref");
                let schema = schema.map(|schema| schema.as_str().unwrap().rsplit('/').next().unwrap().to_owned());
                let text = |name: &str| operation[name].as_str().unwrap().to_owned();
                let needs_role = operation.get("security").is_none();
                let method = method.to_uppercase();
                described.push((method, path.clone(), text("operationId"), text("summary"), schema, needs_role));
            }
        }
        let served = ACTS.iter().map(|act| {
            let (method, path) = (act.method.to_string(), act.path.to_owned());
            let (name, summary, body) = (act.name.to_owned(), act.summary.to_owned(), act.body.map(str::to_owned));
            (method, path, name, summary, body, act.needs != Needs::Nothing)
        });
        let mut served: Vec<Described> = served.collect();
        described.sort();
        served.sort();
        assert_eq!(described, served);
    }

    #[test]
    fn an_act_has_its_name_and_its_address_for_itself() {
        for (at, act) in ACTS.iter().enumerate() {
            for other in &ACTS[at + 1..] {
                assert!(act.name != other.name && (act.path != other.path || act.method != other.method), "{act:?}");
            }
        }
    }
}
