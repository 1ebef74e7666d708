//! Every act there is: where it is done, who may do it, and what its body must be.

use http::Method;

use super::person::{Needs, Role};

/// What can be done at the desk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Describe,
    Explain,
    ListFreezes,
    Freeze,
    Lift,
    ListRequests,
    ShowRequest,
    Resolve,
    ListHolds,
    WatchHolds,
    ShowHold,
    Approve,
    Reject,
    Withdraw,
    Comment,
    ShowPolicies,
    Agree,
    Usage,
    ListStandIns,
    NameStandIn,
    RevokeStandIn,
    WaysIn,
    ShowSession,
    SignIn,
    SignOut,
    StartSignIn,
    EndSignIn,
    EndSessions,
    SearchHistory,
    TellRequest,
    CountDecisions,
}

/// The acts of one path, by their methods.
pub(super) type Acts = &'static [(Method, Act)];

/// Every path, as the router reads it.
pub(super) const PATHS: [(&str, Acts); 27] = [
    ("/sluice/v1/openapi.json", &[(Method::GET, Act::Describe)]),
    ("/sluice/v1/explain", &[(Method::POST, Act::Explain)]),
    ("/sluice/v1/usage", &[(Method::GET, Act::Usage)]),
    ("/sluice/v1/policies", &[(Method::GET, Act::ShowPolicies)]),
    ("/sluice/v1/policies/{version}/agree", &[(Method::POST, Act::Agree)]),
    ("/sluice/v1/freezes", &[(Method::GET, Act::ListFreezes), (Method::POST, Act::Freeze)]),
    ("/sluice/v1/freezes/lift", &[(Method::POST, Act::Lift)]),
    ("/sluice/v1/requests", &[(Method::GET, Act::ListRequests)]),
    ("/sluice/v1/requests/{environment}/{request}", &[(Method::GET, Act::ShowRequest)]),
    ("/sluice/v1/requests/{environment}/{request}/resolve", &[(Method::POST, Act::Resolve)]),
    ("/sluice/v1/stand-ins", &[(Method::GET, Act::ListStandIns), (Method::POST, Act::NameStandIn)]),
    ("/sluice/v1/stand-ins/revoke", &[(Method::POST, Act::RevokeStandIn)]),
    ("/sluice/v1/holds", &[(Method::GET, Act::ListHolds)]),
    ("/sluice/v1/holds/changes", &[(Method::GET, Act::WatchHolds)]),
    ("/sluice/v1/holds/{hold}", &[(Method::GET, Act::ShowHold)]),
    ("/sluice/v1/holds/{hold}/approve", &[(Method::POST, Act::Approve)]),
    ("/sluice/v1/holds/{hold}/reject", &[(Method::POST, Act::Reject)]),
    ("/sluice/v1/holds/{hold}/withdraw", &[(Method::POST, Act::Withdraw)]),
    ("/sluice/v1/holds/{hold}/comment", &[(Method::POST, Act::Comment)]),
    ("/sluice/v1/session/ways", &[(Method::GET, Act::WaysIn)]),
    ("/sluice/v1/sessions/end", &[(Method::POST, Act::EndSessions)]),
    ("/sluice/v1/history", &[(Method::GET, Act::SearchHistory)]),
    ("/sluice/v1/history/{environment}/{request}", &[(Method::GET, Act::TellRequest)]),
    ("/sluice/v1/decisions", &[(Method::GET, Act::CountDecisions)]),
    ("/sluice/v1/session/start", &[(Method::GET, Act::StartSignIn)]),
    ("/sluice/v1/session/callback", &[(Method::GET, Act::EndSignIn)]),
    (
        "/sluice/v1/session",
        &[(Method::GET, Act::ShowSession), (Method::POST, Act::SignIn), (Method::DELETE, Act::SignOut)],
    ),
];

impl Act {
    pub const ALL: [Act; 31] = [
        Act::Describe,
        Act::Explain,
        Act::Usage,
        Act::ShowPolicies,
        Act::Agree,
        Act::ListFreezes,
        Act::Freeze,
        Act::Lift,
        Act::ListRequests,
        Act::ShowRequest,
        Act::Resolve,
        Act::ListHolds,
        Act::WatchHolds,
        Act::ShowHold,
        Act::Approve,
        Act::Reject,
        Act::Withdraw,
        Act::Comment,
        Act::ListStandIns,
        Act::NameStandIn,
        Act::RevokeStandIn,
        Act::WaysIn,
        Act::ShowSession,
        Act::SignIn,
        Act::SignOut,
        Act::StartSignIn,
        Act::EndSignIn,
        Act::EndSessions,
        Act::SearchHistory,
        Act::TellRequest,
        Act::CountDecisions,
    ];

    /// Its `operationId`; metrics and logs call it so too.
    pub fn as_str(self) -> &'static str {
        match self {
            Act::Describe => "describe",
            Act::Explain => "explain",
            Act::Usage => "usage",
            Act::ListFreezes => "listFreezes",
            Act::ShowPolicies => "showPolicies",
            Act::Agree => "agree",
            Act::Freeze => "freeze",
            Act::Lift => "lift",
            Act::ListRequests => "listRequests",
            Act::ShowRequest => "showRequest",
            Act::Resolve => "resolveRequest",
            Act::ListHolds => "listHolds",
            Act::WatchHolds => "watchHolds",
            Act::ShowHold => "showHold",
            Act::Approve => "approveHold",
            Act::Reject => "rejectHold",
            Act::Withdraw => "withdrawVote",
            Act::Comment => "commentHold",
            Act::ListStandIns => "listStandIns",
            Act::NameStandIn => "nameStandIn",
            Act::RevokeStandIn => "revokeStandIn",
            Act::WaysIn => "waysIn",
            Act::ShowSession => "showSession",
            Act::SignIn => "signIn",
            Act::SignOut => "signOut",
            Act::StartSignIn => "startSignIn",
            Act::EndSignIn => "endSignIn",
            Act::EndSessions => "endSessions",
            Act::SearchHistory => "searchHistory",
            Act::TellRequest => "tellRequest",
            Act::CountDecisions => "countDecisions",
        }
    }

    pub fn needs(self) -> Needs {
        match self {
            Act::Describe | Act::WaysIn => Needs::Nothing,
            // These look at the cookie themselves.
            Act::ShowSession | Act::SignIn | Act::SignOut | Act::StartSignIn | Act::EndSignIn => Needs::Nothing,
            Act::Explain | Act::Usage | Act::ShowPolicies | Act::ListFreezes | Act::ListRequests | Act::ShowRequest => {
                Needs::AnyRole
            }
            Act::ListHolds | Act::WatchHolds | Act::ShowHold => Needs::AnyRole,
            // Whose, is looked at by the act.
            Act::ListStandIns | Act::RevokeStandIn | Act::EndSessions => Needs::AnyRole,
            Act::Approve | Act::Reject | Act::Withdraw | Act::Comment | Act::NameStandIn => Needs::Role(Role::Approver),
            Act::SearchHistory | Act::TellRequest | Act::CountDecisions => Needs::AnyRole,
            Act::Agree => Needs::Role(Role::PolicyAdmin),
            Act::Freeze | Act::Lift | Act::Resolve => Needs::Role(Role::Operator),
        }
    }

    /// Whether it is for pages of the console alone, whatever is shown with it.
    pub fn is_for_pages(self) -> bool {
        matches!(self, Act::SignIn | Act::SignOut)
    }

    /// The name of its body's schema, where it has a body.
    pub fn body(self) -> Option<&'static str> {
        match self {
            Act::Describe
            | Act::Usage
            | Act::ShowPolicies
            | Act::ListFreezes
            | Act::ListRequests
            | Act::ShowRequest => None,
            Act::SearchHistory | Act::TellRequest | Act::CountDecisions => None,
            Act::WaysIn | Act::ShowSession | Act::SignOut | Act::StartSignIn | Act::EndSignIn => None,
            Act::SignIn => Some("signInRequest"),
            Act::EndSessions => Some("endSessionsRequest"),
            Act::Explain => Some("explainRequest"),
            Act::ListHolds | Act::WatchHolds | Act::ShowHold | Act::ListStandIns => None,
            Act::Approve => Some("approveRequest"),
            Act::Reject => Some("rejectRequest"),
            Act::Withdraw => Some("withdrawRequest"),
            Act::Comment => Some("commentRequest"),
            Act::NameStandIn => Some("standInRequest"),
            Act::RevokeStandIn => Some("standInRevokeRequest"),
            Act::Agree => Some("agreeRequest"),
            Act::Freeze => Some("freezeRequest"),
            Act::Lift => Some("liftRequest"),
            Act::Resolve => Some("resolveRequest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::catalog::SchemaFiles;

    #[test]
    fn the_document_describes_these_acts_and_no_others() {
        let document: Value = serde_json::from_slice(SchemaFiles::of_console()).unwrap();
        let mut described = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters") {
                let schema = operation.pointer("/requestBody/content/application~1json/schema/$ref");
                let schema = schema.map(|schema| schema.as_str().unwrap().rsplit('/').next().unwrap().to_owned());
                let id = operation["operationId"].as_str().unwrap().to_owned();
                described.push((path.clone(), method.to_uppercase(), id, schema));
            }
        }
        let mut served: Vec<_> = PATHS
            .iter()
            .flat_map(|(path, acts)| acts.iter().map(move |(method, act)| (path, method, act)))
            .map(|(path, method, act)| {
                let body = act.body().map(str::to_owned);
                ((*path).to_owned(), method.to_string(), act.as_str().to_owned(), body)
            })
            .collect();
        described.sort();
        served.sort();
        assert_eq!(described, served);
        assert_eq!(served.len(), Act::ALL.len());
    }
}
