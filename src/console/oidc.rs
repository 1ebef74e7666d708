//! Sign-in at an OpenID provider.
//!
//! The redirect address comes from the configuration and the provider's discovery document, never from the request. The
//! browser returns to the console's page, with an error code if the sign-in failed.

use std::net::IpAddr;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{HeaderValue, LOCATION, SET_COOKIE};

use super::browser::{Cookie, CookieValue};
use super::form::unescaped;
use super::person::{Needs, Person};
use super::provider::ProviderSignIn;
use super::render;
use super::request::{ActRequest, violated};
use super::server::ConsoleServer;
use super::session;
use crate::adapters::identity::ProviderFault;
use crate::adapters::random;
use crate::base::word_enum::word_enum;
use crate::node::sessions::SessionRefusal;
use crate::people::sign_in::{LONGEST_SECS, SignIn, is_answer};
use crate::stations::admit::{AdmitRefusal, TokenFault};
use crate::stations::reply::{Code, Reply, ReplyOrigin, error_json};

/// The provider's errors where it had to ask the person something.
const NOT_SILENT: [&str; 4] =
    ["login_required", "interaction_required", "consent_required", "account_selection_required"];
const COOKIE: Cookie = Cookie::SignIn { secs: LONGEST_SECS };

word_enum! {
    /// The error code of a failed sign-in, as the page gets it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum SignInError {
        /// The provider declined.
        Declined = "declined",
        /// A silent sign-in is impossible: the provider has to ask the person something.
        SignedOut = "signed-out",
        /// The sign-in was not started here or in this browser, or has expired, or was already completed.
        OtherBrowser = "other-browser",
        /// The code has expired, was used, or belongs to another sign-in.
        Expired = "expired",
        /// The provider cannot be reached, or its answer is invalid.
        Provider = "provider",
        InvalidToken = "invalid-token",
        NoRole = "no-role",
        Store = "store",
        Busy = "busy",
    }
}

pub(super) async fn start(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let Some(oidc) = &server.oidc else { return no_provider() };
    let is_silent = match asked.query.as_slice() {
        [] => false,
        [(name, value)] if name == "silent" && value == "true" => true,
        [(name, _), ..] => return violated(vec![render::unknown_parameter(name)]),
    };
    if server.rates.sign_in_from(asked.peer).is_err() {
        return fail(server, SignInError::Busy);
    }
    // Only a request to the provider takes a place.
    let _place = match oidc.provider.known() {
        Some(_) => None,
        None => match oidc.place(asked.peer).await {
            Some(place) => Some(place),
            None => return fail(server, SignInError::Busy),
        },
    };
    let Some(seed) = random::session_id() else { return fail(server, SignInError::Busy) };
    let sign_in = SignIn::begin(&oidc.key, seed.secret().reveal(), server.inside.node.clock.now().as_second());
    match oidc.provider.address(&sign_in, is_silent).await {
        Ok(address) => match HeaderValue::from_str(&address) {
            Ok(address) => redirect(302, address, server.browsers.set_cookie(COOKIE, sign_in.kept())),
            Err(_) => fail(server, SignInError::Provider),
        },
        Err(fault) => {
            tracing::warn!(%fault, "sign-in is impossible: the OpenID provider cannot be used");
            fail(server, SignInError::Provider)
        }
    }
}

pub(super) async fn end(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let Some(oidc) = &server.oidc else { return no_provider() };
    let Some(answer) = ProviderAnswer::read(&asked.target_query) else { return fail(server, SignInError::Provider) };
    let CookieValue::One(kept) = server.browsers.cookie(&asked.headers, COOKIE) else {
        return fail(server, SignInError::OtherBrowser);
    };
    let now_secs = server.inside.node.clock.now().as_second();
    let state = answer.state.as_deref().unwrap_or_default();
    let sign_in = SignIn::resume(&oidc.key, kept, state, now_secs);
    // With a wrong `state` the browser keeps its cookie.
    let Some(sign_in) = sign_in else { return fail(server, SignInError::OtherBrowser) };
    if server.rates.sign_in_from(asked.peer).is_err() {
        return fail(server, SignInError::Busy);
    }
    // The right `state` completes a sign-in once.
    if !oidc.ends(&sign_in, now_secs) {
        return fail(server, SignInError::OtherBrowser);
    }
    let mut reply = match complete_sign_in(server, oidc, &answer, &sign_in, asked.peer).await {
        Ok(cookie) => {
            server.inside.metrics.signed_in("oidc", "signed-in");
            redirect(303, HeaderValue::from_static("/"), cookie)
        }
        Err(word) => fail(server, word),
    };
    reply.headers.extend(server.browsers.delete_cookie(COOKIE).map(|deleted| (SET_COOKIE, deleted)));
    reply
}

/// Completes a sign-in; returns the cookie of the new session.
async fn complete_sign_in(
    server: &ConsoleServer,
    oidc: &ProviderSignIn,
    answer: &ProviderAnswer,
    sign_in: &SignIn,
    peer: IpAddr,
) -> Result<Option<HeaderValue>, SignInError> {
    let Some(_place) = oidc.place(peer).await else { return Err(SignInError::Busy) };
    let failed = |fault: ProviderFault| {
        tracing::warn!(%fault, "a sign-in at the OpenID provider failed");
        if matches!(fault, ProviderFault::Code) { SignInError::Expired } else { SignInError::Provider }
    };
    let config = oidc.provider.config();
    // An answer of another provider is never exchanged at this one.
    let is_its = match &answer.issuer {
        Some(issuer) => *issuer == config.issuer,
        None => !oidc.provider.discovery().await.map_err(failed)?.says_issuer,
    };
    if !is_its {
        tracing::warn!("the answer to a sign-in comes from another provider than the configured one");
        return Err(SignInError::Provider);
    }
    let code = match (&answer.error, &answer.code) {
        (Some(error), _) if NOT_SILENT.contains(&error.as_str()) => return Err(SignInError::SignedOut),
        (Some(_), _) => return Err(SignInError::Declined),
        (None, Some(code)) => code,
        (None, None) => return Err(SignInError::Provider),
    };
    let token = oidc.provider.exchange(code, sign_in).await.map_err(failed)?;
    let (caller, until_secs) = server.verify_token(&token).await.map_err(|refusal| match refusal {
        AdmitRefusal::NotBelieved(TokenFault::NoKeys { .. }) => SignInError::Provider,
        _ => SignInError::InvalidToken,
    })?;
    is_answer(token.reveal(), &config.client_id, &sign_in.nonce()).map_err(|fault| {
        server.inside.metrics.token_refused("console", fault.as_str());
        SignInError::InvalidToken
    })?;
    let person = Person::of(&caller);
    if !person.may(Needs::AnyRole) {
        return Err(SignInError::NoRole);
    }
    server.rates.sign_in_of(&person.who).map_err(|_| SignInError::Busy)?;
    match session::begin(server, &person, until_secs, "oidc").await {
        Ok((id, _)) => Ok(session::cookie(&server.browsers, &id)),
        Err(SessionRefusal::Full) => Err(SignInError::Busy),
        Err(SessionRefusal::Store(fault)) => {
            server.inside.node.told_of(&fault);
            Err(SignInError::Store)
        }
    }
}

/// Redirects to the page, which shows the error in words.
fn fail(server: &ConsoleServer, word: SignInError) -> Reply {
    server.inside.metrics.signed_in("oidc", word.as_str());
    let place = HeaderValue::from_str(&format!("/#error={}", word.as_str()));
    redirect(303, place.unwrap_or(HeaderValue::from_static("/")), None)
}

fn redirect(status: u16, place: HeaderValue, cookie: Option<HeaderValue>) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(LOCATION, place);
    headers.extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Reply { status, headers, body: Bytes::new(), origin: ReplyOrigin::Gateway, executed: None, code: None }
}

fn no_provider() -> Reply {
    error_json(Code::OperationNotFound, "this console has no OpenID provider.", None)
}

/// The parameters with which a provider sends the browser back.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProviderAnswer {
    code: Option<String>,
    state: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
}

impl ProviderAnswer {
    /// Parses the parameters; returns nothing if one appears twice or is malformed. Other parameters are ignored.
    fn read(query: &str) -> Option<ProviderAnswer> {
        let mut answer = ProviderAnswer::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let place = match name {
                "code" => &mut answer.code,
                "state" => &mut answer.state,
                "iss" => &mut answer.issuer,
                "error" => &mut answer.error,
                _ => continue,
            };
            if place.replace(unescaped(value)?).is_some() {
                return None;
            }
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_each_thing_once() {
        let read = |query| ProviderAnswer::read(query);
        let answer = read("code=a%2Fb+c&state=s&iss=https%3A%2F%2Fid.test&session_state=x&scope=a%zz").unwrap();
        assert_eq!(answer.code.as_deref(), Some("a/b c"));
        assert_eq!((answer.state.as_deref(), answer.issuer.as_deref()), (Some("s"), Some("https://id.test")));
        for odd in ["code=a&code=a", "state=%2", "state=%zz", "state=%+1", "code=%ff", "code=%0a", "iss=&iss="] {
            assert_eq!(read(odd), None, "{odd}");
        }
        assert_eq!(read(""), Some(ProviderAnswer::default()));
    }
}
