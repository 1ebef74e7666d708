//! The acts that sign in, check, end and list sessions.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use http::header::{HeaderValue, SET_COOKIE};
use serde_json::{Value, json};

use super::browser::{Browsers, Cookie, CookieValue};
use super::person::{Needs, Person, Role};
use super::render;
use super::request::{ActRequest, store_failed};
use super::server::ConsoleServer;
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::ledger::StoreFault;
use crate::node::sessions;
use crate::node::sessions::{NewSession, SessionFound, SessionRefusal};
use crate::people::session::{SessionId, StandingSession};
use crate::stations::admit::{AdmitRefusal, TokenFault, is_token};
use crate::stations::reply::{Code, Refusal, Reply, error_json, ok_json, refused};

const OVER: &str = "there is no session, or it has ended: sign in";

pub(super) fn ways(server: &ConsoleServer) -> Reply {
    let provider = server.oidc.as_ref().map(|oidc| json!({ "name": oidc.name() }));
    ok_json(200, &json!({ "token": server.token_sign_in, "oidc": provider }))
}

pub(super) async fn sign_in(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let count = |outcome: &str| server.inside.metrics.signed_in("token", outcome);
    if !server.token_sign_in {
        count("off");
        return error_json(Code::Forbidden, "sign-in with a token is switched off here; nothing was done.", None);
    }
    if let Err(limited) = server.rates.sign_in_from(asked.peer) {
        count("rate");
        return *limited;
    }
    let token = asked.body.get("token").and_then(Value::as_str).unwrap_or_default().trim();
    let believed = if is_token(token) {
        server.verify_token(&Secret::new(token.to_owned())).await
    } else {
        Err(AdmitRefusal::NotBelieved(TokenFault::Malformed))
    };
    let (caller, until_secs) = match believed {
        Ok(believed) => believed,
        Err(refusal) => {
            count("invalid-token");
            return refused(&Refusal::Admit(refusal), None);
        }
    };
    let person = Person::of(&caller);
    if !person.may(Needs::AnyRole) {
        count("no-role");
        let message = format!("{}; you are not signed in.", Needs::AnyRole.refusal_text());
        return error_json(Code::Forbidden, &message, None);
    }
    if let Err(limited) = server.rates.sign_in_of(&person.who) {
        count("rate");
        return *limited;
    }
    match begin(server, &person, until_secs, "token").await {
        Ok((id, standing)) => {
            count("signed-in");
            let mut reply = ok_json(200, &session_json(server, &standing));
            reply.headers.extend(cookie(&server.browsers, &id).map(|value| (SET_COOKIE, value)));
            reply
        }
        Err(SessionRefusal::Full) => {
            count("full");
            error_json(Code::Overloaded, "too many people are signed in; you are not. Try again later.", None)
        }
        Err(SessionRefusal::Store(fault)) => {
            count("store");
            store_failed(&server.inside, &fault)
        }
    }
}

pub(super) async fn show(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let CookieValue::One(id) = server.browsers.session(&asked.headers) else { return over() };
    match find(server, &id, Browsers::is_use(&asked.headers)).await {
        Ok(Some(standing)) => ok_json(200, &session_json(server, &standing)),
        Ok(None) => over(),
        Err(fault) => store_failed(&server.inside, &fault),
    }
}

pub(super) async fn sign_out(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let changed = match server.browsers.session(&asked.headers) {
        CookieValue::One(id) => end(server, &id, asked.peer).await,
        CookieValue::Nothing | CookieValue::Invalid => Ok(false),
    };
    match changed {
        Ok(changed) => {
            let mut reply = ok_json(200, &json!({ "changed": changed }));
            let deleted = server.browsers.delete_cookie(Cookie::Session);
            reply.headers.extend(deleted.map(|value| (SET_COOKIE, value)));
            reply
        }
        Err(reply) => *reply,
    }
}

/// Ends a session, also one that the store does not show, and returns whether it was open.
async fn end(server: &ConsoleServer, id: &SessionId, peer: IpAddr) -> Result<bool, Box<Reply>> {
    let (node, environment, terms) = (&server.inside.node, environment(server), server.terms);
    let failed = |fault: StoreFault| Box::new(store_failed(&server.inside, &fault));
    match sessions::end(node, environment, id, terms).await.map_err(failed)? {
        SessionFound::Open => Ok(true),
        SessionFound::Ended => Ok(false),
        SessionFound::Unseen => {
            // Anybody can invent a session: each end is a commit.
            server.rates.unseen_end_from(peer)?;
            sessions::end_unseen(node, environment, id, terms).await.map_err(failed)?;
            Ok(false)
        }
    }
}

/// Ends the person's own sessions, or for an operator those of any person.
pub(super) async fn end_all(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let text = |name: &str| asked.body.get(name).and_then(Value::as_str);
    let by = &asked.person.who;
    let who = text("person").map_or_else(|| by.clone(), |subject| by.beside(subject));
    if who != *by && !asked.person.has(Role::Operator) {
        return error_json(Code::Forbidden, "ending another person's sessions needs the role `operator`.", None);
    }
    // Each is an entry, also where the store shows no session.
    if let Err(limited) = server.rates.end_of_all(by, who == *by) {
        return *limited;
    }
    let why = (by, text("reason").unwrap_or_default());
    match sessions::end_all(&server.inside.node, environment(server), &who, why, server.terms).await {
        Ok(ended) => ok_json(200, &json!({ "ended": ended })),
        Err(fault) => store_failed(&server.inside, &fault),
    }
}

/// Returns the person of a valid session. Sessions of an issuer that is no longer the console's are not valid.
pub(super) async fn person(server: &ConsoleServer, id: &SessionId, is_use: bool) -> Result<Person, Box<Reply>> {
    match find(server, id, is_use).await {
        Ok(Some(standing)) => Ok(Person::in_session(&standing.session, &server.inside.node.owners)),
        Ok(None) => Err(Box::new(over())),
        Err(fault) => Err(Box::new(store_failed(&server.inside, &fault))),
    }
}

/// Starts a new session for a person whose token, which expires at `until_secs` (seconds since 1970), was verified.
pub(super) async fn begin(
    server: &ConsoleServer,
    person: &Person,
    until_secs: i64,
    way: &'static str,
) -> Result<(SessionId, StandingSession), SessionRefusal> {
    let node = &server.inside.node;
    let left = until_secs.saturating_sub(node.clock.now().as_second());
    let token_for = Duration::from_secs(u64::try_from(left).unwrap_or(0));
    // With its session ends a role that the provider has taken away since.
    let renewal = server.oidc.as_ref().filter(|_| way == "oidc").map(|oidc| oidc.provider.config().renew);
    let token_for = renewal.map_or(token_for, |renewal| token_for.min(renewal));
    let roles: BTreeSet<String> = person.roles().map(str::to_owned).collect();
    let newcomer = NewSession { who: person.who.clone(), roles, token_for, way, renews: renewal.is_some() };
    let begun = sessions::begin(node, environment(server), &newcomer, server.terms).await;
    begun.inspect(|(id, _)| server.believed.add(id))
}

/// Returns the header that sets the session cookie.
pub(super) fn cookie(browsers: &Browsers, id: &SessionId) -> Option<HeaderValue> {
    browsers.set_cookie(Cookie::Session, id.secret().reveal())
}

pub(super) fn over() -> Reply {
    refused(&Refusal::Admit(AdmitRefusal::Unauthorized(OVER)), None)
}

async fn find(server: &ConsoleServer, id: &SessionId, is_use: bool) -> Result<Option<StandingSession>, StoreFault> {
    let found = sessions::find(&server.inside.node, environment(server), id, server.terms, is_use).await?;
    Ok(found.filter(|standing| standing.session.who.issuer == server.issuer))
}

fn session_json(server: &ConsoleServer, standing: &StandingSession) -> Value {
    let person = Person::in_session(&standing.session, &server.inside.node.owners);
    let (roles, inside) = (person.roles().collect::<Vec<_>>(), &server.inside);
    let seen = inside.environments.iter().filter(|one| inside.visibility.shows(&roles, **one, None));
    let environments: Vec<&str> = seen.map(|one| one.as_str()).collect();
    json!({
        "person": { "issuer": person.who.issuer, "subject": person.who.subject },
        "roles": roles,
        "environments": environments,
        "expiresAt": render::moment(standing.session.until),
        "idleUntil": render::moment(standing.idle_until(server.terms)),
        "renews": standing.session.renews,
    })
}

/// Returns the environment whose store has the sessions: the same on all nodes that serve the same environments.
fn environment(server: &ConsoleServer) -> Environment {
    server.inside.environments.first().copied().unwrap_or(Environment::Production)
}
