//! Signing in, staying, signing out.

use std::collections::BTreeSet;
use std::time::Duration;

use http::header::{HeaderValue, SET_COOKIE};
use serde_json::{Value, json};

use super::asked::{Asked, store_failed};
use super::browser::{Browsers, Cookie, Shown};
use super::desk::Desk;
use super::person::{Needs, Person, Role};
use super::told;
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::commit::StoreFault;
use crate::journey::sessions::{self, Newcomer};
use crate::stations::admit::{AdmitRefusal, TokenFault, is_token};
use crate::stations::reply::{Code, Refusal, Reply, refused, said, unsaid};
use crate::stations::session::{SessionId, Standing};

const OVER: &str = "there is no session, or it is over: sign in";

pub(super) fn ways(desk: &Desk) -> Reply {
    let provider = desk.door.as_ref().map(|door| json!({ "name": door.name() }));
    said(200, &json!({ "token": desk.token_sign_in, "oidc": provider }))
}

pub(super) async fn sign_in(desk: &Desk, asked: &Asked) -> Reply {
    let told = |outcome: &str| desk.inside.metrics.signed_in("token", outcome);
    if !desk.token_sign_in {
        told("off");
        return unsaid(Code::Forbidden, "nobody signs in with a token here; nothing was done.", None);
    }
    let token = asked.body.get("token").and_then(Value::as_str).unwrap_or_default().trim();
    let believed = if is_token(token) {
        desk.believe(&Secret::new(token.to_owned())).await
    } else {
        Err(AdmitRefusal::NotBelieved(TokenFault::Malformed))
    };
    let (caller, until_secs) = match believed {
        Ok(believed) => believed,
        Err(refusal) => {
            told("not-believed");
            return refused(&Refusal::Admit(refusal), None);
        }
    };
    let person = Person::of(&caller);
    if !person.may(Needs::AnyRole) {
        told("no-role");
        let message = format!("{}; nobody is signed in.", Needs::AnyRole.told());
        return unsaid(Code::Forbidden, &message, None);
    }
    match begin(desk, &person, until_secs, "token").await {
        Ok((id, standing)) => {
            told("signed-in");
            let mut reply = said(200, &shown(desk, &standing));
            reply.headers.extend(cookie(&desk.browsers, &id).map(|value| (SET_COOKIE, value)));
            reply
        }
        Err(fault) => {
            told("store");
            store_failed(&desk.inside, &fault)
        }
    }
}

pub(super) async fn show(desk: &Desk, asked: &Asked) -> Reply {
    let Shown::One(id) = desk.browsers.session(&asked.headers) else { return over() };
    match find(desk, &id, Browsers::is_use(&asked.headers)).await {
        Ok(Some(standing)) => said(200, &shown(desk, &standing)),
        Ok(None) => over(),
        Err(fault) => store_failed(&desk.inside, &fault),
    }
}

pub(super) async fn sign_out(desk: &Desk, asked: &Asked) -> Reply {
    let changed = match desk.browsers.session(&asked.headers) {
        Shown::One(id) => sessions::end(&desk.inside.books, environment(desk), &id, desk.terms).await,
        Shown::Nothing | Shown::Odd => Ok(false),
    };
    match changed {
        Ok(changed) => {
            let mut reply = said(200, &json!({ "changed": changed }));
            let gone = desk.browsers.take(Cookie::Session);
            reply.headers.extend(gone.map(|value| (SET_COOKIE, value)));
            reply
        }
        Err(fault) => store_failed(&desk.inside, &fault),
    }
}

/// One's own, or anybody's for an operator.
pub(super) async fn end_all(desk: &Desk, asked: &Asked) -> Reply {
    let text = |name: &str| asked.body.get(name).and_then(Value::as_str);
    let by = &asked.person.who;
    let who = text("person").map_or_else(|| by.clone(), |subject| by.beside(subject));
    if who != *by && !asked.person.has(Role::Operator) {
        return unsaid(Code::Forbidden, "it takes the role `operator` to end another person's sessions.", None);
    }
    let why = (by, text("reason").unwrap_or_default());
    match sessions::end_all(&desk.inside.books, environment(desk), &who, why).await {
        Ok(ended) => said(200, &json!({ "ended": ended })),
        Err(fault) => store_failed(&desk.inside, &fault),
    }
}

/// The person of a session that stands; sessions of an issuer whose tokens are no people any more do not.
pub(super) async fn person(desk: &Desk, id: &SessionId, is_use: bool) -> Result<Person, Box<Reply>> {
    match find(desk, id, is_use).await {
        Ok(Some(standing)) => Ok(Person::in_session(&standing.session)),
        Ok(None) => Err(Box::new(over())),
        Err(fault) => Err(Box::new(store_failed(&desk.inside, &fault))),
    }
}

/// A new session of a believed person, whatever was shown before; their token ends then, in seconds since 1970.
pub(super) async fn begin(
    desk: &Desk,
    person: &Person,
    until_secs: i64,
    way: &'static str,
) -> Result<(SessionId, Standing), StoreFault> {
    let books = &desk.inside.books;
    let left = until_secs.saturating_sub(books.clock.now().as_second());
    let token_for = Duration::from_secs(u64::try_from(left).unwrap_or(0));
    let roles: BTreeSet<String> = person.roles().map(str::to_owned).collect();
    let newcomer = Newcomer { who: person.who.clone(), roles, token_for, way };
    sessions::begin(books, environment(desk), &newcomer, desk.terms).await
}

/// The header that gives a session to its browser.
pub(super) fn cookie(browsers: &Browsers, id: &SessionId) -> Option<HeaderValue> {
    browsers.give(Cookie::Session, id.secret().reveal())
}

pub(super) fn over() -> Reply {
    refused(&Refusal::Admit(AdmitRefusal::Unauthorized(OVER)), None)
}

async fn find(desk: &Desk, id: &SessionId, is_use: bool) -> Result<Option<Standing>, StoreFault> {
    let found = sessions::find(&desk.inside.books, environment(desk), id, desk.terms, is_use).await?;
    Ok(found.filter(|standing| standing.session.who.issuer == desk.issuer))
}

fn shown(desk: &Desk, standing: &Standing) -> Value {
    let person = Person::in_session(&standing.session);
    json!({
        "person": { "issuer": person.who.issuer, "subject": person.who.subject },
        "roles": person.roles().collect::<Vec<_>>(),
        "expiresAt": told::moment(standing.session.until),
        "idleUntil": told::moment(standing.idle_until(desk.terms)),
    })
}

/// Where sessions stand is the same for all nodes that serve the same environments.
fn environment(desk: &Desk) -> Environment {
    desk.inside.environments.first().copied().unwrap_or(Environment::Production)
}
