//! Signing in at an OpenID provider: there and back.
//!
//! Where a browser is sent is made of the configuration and of what the provider says of itself, never of anything that
//! came with the request; back it goes to the console's page, with a word where nobody is signed in.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{HeaderValue, LOCATION, SET_COOKIE};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::asked::Asked;
use super::browser::{Cookie, Shown};
use super::desk::Desk;
use super::form::unescaped;
use super::person::{Needs, Person};
use super::session;
use crate::adapters::identity::{Provider, ProviderFault};
use crate::adapters::random;
use crate::base::digest::Fingerprint;
use crate::config::OidcConfig;
use crate::stations::admit::{AdmitRefusal, TokenFault};
use crate::stations::reply::{Code, Origin, Reply, unsaid};
use crate::stations::sign_in::{LONGEST_SECS, SignIn, SignInKey, is_answer};

/// Questions to the provider at one time.
const MOST_QUESTIONS: usize = 8;
/// How long one waits to be asked.
const PATIENCE: Duration = Duration::from_secs(3);
/// Sign-ins that ended lately and are remembered, so that none ends twice.
const MOST_ENDED: usize = 4096;
const COOKIE: Cookie = Cookie::SignIn { secs: LONGEST_SECS };

/// What the console has of its provider.
#[derive(Debug)]
pub(super) struct Door {
    provider: Provider,
    key: SignInKey,
    questions: Semaphore,
    /// By their digests, with the time from which on they are over anyway.
    ended: Mutex<HashMap<String, i64>>,
}

/// Why nobody is signed in, as the page is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// The provider said no.
    Declined,
    /// It was not begun here, or by another browser, or it is over, or it ended before.
    OtherBrowser,
    /// The code is too old, was used, or is another's.
    Expired,
    /// The provider cannot be reached, or answers otherwise than it should.
    Provider,
    NotBelieved,
    NoRole,
    Store,
    Busy,
}

impl Word {
    fn as_str(self) -> &'static str {
        match self {
            Word::Declined => "declined",
            Word::OtherBrowser => "other-browser",
            Word::Expired => "expired",
            Word::Provider => "provider",
            Word::NotBelieved => "not-believed",
            Word::NoRole => "no-role",
            Word::Store => "store",
            Word::Busy => "busy",
        }
    }
}

impl Door {
    pub fn new(config: OidcConfig) -> Result<Door, String> {
        // Nodes that have no secret in common do not understand each other.
        let secret = config.client_secret.clone().unwrap_or_else(random::key);
        let provider = Provider::new(config).map_err(|error| format!("the OpenID provider: {error}"))?;
        let (questions, ended) = (Semaphore::new(MOST_QUESTIONS), Mutex::default());
        Ok(Door { provider, key: SignInKey::of(secret.reveal()), questions, ended })
    }

    pub fn name(&self) -> &str {
        &self.provider.config().name
    }

    /// To ask the provider something; nothing if too many wait to.
    async fn room(&self) -> Option<SemaphorePermit<'_>> {
        timeout(PATIENCE, self.questions.acquire()).await.ok()?.ok()
    }

    /// `false`: it ended before.
    fn ends(&self, sign_in: &SignIn, now_secs: i64) -> bool {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() >= MOST_ENDED {
            ended.retain(|_, until| now_secs < *until);
        }
        // The provider takes no code twice: what is forgotten here is still of no use.
        let soonest = ended.iter().min_by_key(|(_, until)| **until).map(|(digest, _)| digest.clone());
        if let (true, Some(soonest)) = (ended.len() >= MOST_ENDED, soonest) {
            ended.remove(&soonest);
        }
        ended.insert(Fingerprint::of(&[sign_in.kept().as_bytes()]).to_hex(), sign_in.until_secs()).is_none()
    }
}

pub(super) async fn start(desk: &Desk) -> Reply {
    let Some(door) = &desk.door else { return no_provider() };
    let Some(_room) = door.room().await else { return fail(desk, Word::Busy) };
    let Some(seed) = random::session_id() else { return fail(desk, Word::Busy) };
    let sign_in = SignIn::begin(&door.key, seed.secret().reveal(), desk.inside.books.clock.now().as_second());
    match door.provider.address(&sign_in).await {
        Ok(address) => match HeaderValue::from_str(&address) {
            Ok(address) => there(302, address, desk.browsers.give(COOKIE, sign_in.kept())),
            Err(_) => fail(desk, Word::Provider),
        },
        Err(fault) => {
            tracing::warn!(%fault, "nobody can sign in at the OpenID provider");
            fail(desk, Word::Provider)
        }
    }
}

pub(super) async fn end(desk: &Desk, asked: &Asked) -> Reply {
    let Some(door) = &desk.door else { return no_provider() };
    let Some(answer) = Answer::read(&asked.target_query) else { return fail(desk, Word::Provider) };
    let Shown::One(kept) = desk.browsers.cookie(&asked.headers, COOKIE) else { return fail(desk, Word::OtherBrowser) };
    let now_secs = desk.inside.books.clock.now().as_second();
    let state = answer.state.as_deref().unwrap_or_default();
    let sign_in = SignIn::resume(&door.key, kept, state, now_secs);
    // Whoever has the right state may end it once; who has not leaves the browser what it keeps.
    let Some(sign_in) = sign_in.filter(|sign_in| door.ends(sign_in, now_secs)) else {
        return fail(desk, Word::OtherBrowser);
    };
    let mut reply = match signed_in(desk, door, &answer, &sign_in).await {
        Ok(cookie) => {
            desk.inside.metrics.signed_in("oidc", "signed-in");
            there(303, HeaderValue::from_static("/"), cookie)
        }
        Err(word) => fail(desk, word),
    };
    reply.headers.extend(desk.browsers.take(COOKIE).map(|gone| (SET_COOKIE, gone)));
    reply
}

/// The cookie of a new session.
async fn signed_in(desk: &Desk, door: &Door, answer: &Answer, sign_in: &SignIn) -> Result<Option<HeaderValue>, Word> {
    let Some(_room) = door.room().await else { return Err(Word::Busy) };
    let told = |fault: ProviderFault| {
        tracing::warn!(%fault, "a sign-in at the OpenID provider did not end well");
        if matches!(fault, ProviderFault::Code) { Word::Expired } else { Word::Provider }
    };
    let config = door.provider.config();
    // An answer of another provider is not carried to this one.
    let is_its = match &answer.issuer {
        Some(issuer) => *issuer == config.issuer,
        None => !door.provider.told().await.map_err(told)?.says_issuer,
    };
    if !is_its {
        tracing::warn!("an answer to a sign-in is not of the provider that was asked");
        return Err(Word::Provider);
    }
    let code = match (&answer.error, &answer.code) {
        (Some(_), _) => return Err(Word::Declined),
        (None, Some(code)) => code,
        (None, None) => return Err(Word::Provider),
    };
    let token = door.provider.exchange(code, sign_in).await.map_err(told)?;
    let (caller, until_secs) = desk.believe(&token).await.map_err(|refusal| match refusal {
        AdmitRefusal::NotBelieved(TokenFault::NoKeys { .. }) => Word::Provider,
        _ => Word::NotBelieved,
    })?;
    is_answer(token.reveal(), &config.client_id, &sign_in.nonce()).map_err(|fault| {
        desk.inside.metrics.token_refused("console", fault.as_str());
        Word::NotBelieved
    })?;
    let person = Person::of(&caller);
    if !person.may(Needs::AnyRole) {
        return Err(Word::NoRole);
    }
    match session::begin(desk, &person, until_secs, "oidc").await {
        Ok((id, _)) => Ok(session::cookie(&desk.browsers, &id)),
        Err(fault) => {
            desk.inside.books.told_of(&fault);
            Err(Word::Store)
        }
    }
}

/// Back to the page, which says it in words.
fn fail(desk: &Desk, word: Word) -> Reply {
    desk.inside.metrics.signed_in("oidc", word.as_str());
    let place = HeaderValue::from_str(&format!("/#error={}", word.as_str()));
    there(303, place.unwrap_or(HeaderValue::from_static("/")), None)
}

fn there(status: u16, place: HeaderValue, cookie: Option<HeaderValue>) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(LOCATION, place);
    headers.extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Reply { status, headers, body: Bytes::new(), origin: Origin::Gateway, executed: None, code: None }
}

fn no_provider() -> Reply {
    unsaid(Code::OperationNotFound, "nobody signs in at a provider here.", None)
}

/// What a provider says when it sends the browser back.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    code: Option<String>,
    state: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
}

impl Answer {
    /// Nothing where something is said twice, or cannot be read. What else it says is passed over.
    fn read(query: &str) -> Option<Answer> {
        let mut answer = Answer::default();
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
        let read = |query| Answer::read(query);
        let answer = read("code=a%2Fb+c&state=s&iss=https%3A%2F%2Fid.test&session_state=x&scope=a%zz").unwrap();
        assert_eq!(answer.code.as_deref(), Some("a/b c"));
        assert_eq!((answer.state.as_deref(), answer.issuer.as_deref()), (Some("s"), Some("https://id.test")));
        for odd in ["code=a&code=a", "state=%2", "state=%zz", "state=%+1", "code=%ff", "code=%0a", "iss=&iss="] {
            assert_eq!(read(odd), None, "{odd}");
        }
        assert_eq!(read(""), Some(Answer::default()));
    }
}
