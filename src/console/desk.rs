//! The one way of a request: what it asks for, who asks, whether they may, and only then what they sent.

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{Method, StatusCode, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;

use super::acts::{Act, Acts};
use super::asked::{Asked, violated};
use super::browser::{Browsers, Shown};
use super::decisions::{self, Before};
use super::oidc::{self, Door};
use super::person::{Needs, Person};
use super::{changes, freezes, history, holds, policies, requests, session, sets, stand_ins, told};
use crate::adapters::clock::Stopwatch;
use crate::adapters::random::trace_id;
use crate::base::ids::TraceId;
use crate::base::json::{self, Limits};
use crate::base::secret::Secret;
use crate::catalog::{Contract, Place, SchemaFiles, Violation};
use crate::config::ConsoleConfig;
use crate::gateway::Inside;
use crate::gateway::guard::Unreadable;
use crate::stations::admit::{AdmitRefusal, Caller, LONGEST_TARGET, bearer};
use crate::stations::check::{CheckRefusal, check_head};
use crate::stations::hold::Say;
use crate::stations::reply::{self, Code, Refusal, Reply, refused, said, unsaid};
use crate::stations::session::SessionTerms;
use crate::telemetry::ConsoleLine;

/// The longest body: upstream's record of one call, with room to spare.
const BODY_BYTES: usize = 256 * 1024;
/// Streams of changes that are open at one time.
const MOST_STREAMS: usize = 64;
/// Readings of the audit chain at one time.
const MOST_READERS: usize = 4;
const CORP: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Where people's requests are answered.
pub(super) struct Desk {
    pub inside: Inside,
    pub issuer: String,
    pub browsers: Browsers,
    pub terms: SessionTerms,
    /// Whether a browser may sign in with a token.
    pub token_sign_in: bool,
    /// To the OpenID provider, where there is one.
    pub door: Option<Door>,
    /// Readings of the audit chain that may still begin.
    pub readers: Arc<Semaphore>,
    /// When this process began to count decisions.
    pub begun: Timestamp,
    pub before: OnceCell<Before>,
    is_tls: bool,
    contracts: Vec<(Act, Contract)>,
    /// Streams that may still be opened.
    streams: Arc<Semaphore>,
}

impl Desk {
    pub fn new(config: &ConsoleConfig, inside: Inside) -> Result<Desk, String> {
        let document: Value = serde_json::from_slice(SchemaFiles::of_console()).map_err(|e| e.to_string())?;
        let mut contracts = Vec::new();
        for act in Act::ALL {
            if let Some(name) = act.body() {
                contracts.push((act, Contract::within(&document, &format!("#/components/schemas/{name}"))?));
            }
        }
        let begun = inside.books.clock.now();
        let streams = Arc::new(Semaphore::new(MOST_STREAMS));
        Ok(Desk {
            inside,
            issuer: config.issuer.clone(),
            browsers: Browsers::new(config),
            terms: config.sessions,
            token_sign_in: config.token_sign_in,
            door: config.oidc.clone().map(Door::new).transpose()?,
            readers: Arc::new(Semaphore::new(MOST_READERS)),
            begun,
            before: OnceCell::new(),
            is_tls: config.tls.is_some(),
            contracts,
            streams,
        })
    }

    /// Answers a request to a path that has these acts; a path that has none is not known.
    pub async fn serve(self: &Arc<Self>, acts: Acts, request: Request) -> Response {
        let (_open, since) = (self.inside.requests.token(), Stopwatch::start());
        let trace = trace_id(request.headers().get(reply::REQUEST_ID).and_then(|h| h.to_str().ok()));
        let act = acts.iter().find(|(method, _)| method == request.method()).map(|(_, act)| *act);
        let name = act.map_or("none", Act::as_str);
        let shown = self.browsers.session(request.headers());
        // What was begun ends, also where nobody waits for the answer any more.
        let answering = tokio::spawn(answer(self.clone(), acts, act, request));
        let reply = answering.await.unwrap_or_else(|error| {
            tracing::error!(%error, "an act of the console did not end");
            unsaid(Code::StoreUnavailable, "what became of this is not known: look before it is done again.", None)
        });
        let code = reply.code.map_or("none", Code::as_str);
        let line = ConsoleLine { request_id: trace.as_str(), act: name, status: reply.status, code };
        line.write(since.elapsed());
        self.inside.metrics.console_answered(name, reply.status);
        if act != Some(Act::WatchHolds) || reply.status != 200 {
            return self.finish(reply, &trace);
        }
        match self.streams.clone().try_acquire_owned() {
            Ok(room) => {
                let mut response = self.finish(reply, &trace);
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
                *response.body_mut() = changes::stream(self.clone(), shown, room);
                response
            }
            Err(_) => self.finish(unsaid(Code::Overloaded, "as many are listening as may be.", None), &trace),
        }
    }

    /// What could not be read as a request.
    pub fn unreadable(&self, why: Unreadable) -> Response {
        let refusal = match why {
            Unreadable::HeadTooLarge | Unreadable::TooManyHeaders => AdmitRefusal::HeadTooLarge(why.told()),
            Unreadable::HeadSlow => AdmitRefusal::HeadSlow,
            other => AdmitRefusal::Malformed(other.told()),
        };
        let reply = refused(&Refusal::Admit(refusal), None);
        self.inside.metrics.console_answered("none", reply.status);
        self.finish(reply, &trace_id(None))
    }

    /// What stands on every answer.
    pub(super) fn finish(&self, reply: Reply, trace: &TraceId) -> Response {
        let mut response = Response::new(Body::from(reply.body));
        *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        *headers = reply.headers;
        let policy = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
        for (name, value) in [
            (CACHE_CONTROL, "no-store"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "no-referrer"),
            (CONTENT_SECURITY_POLICY, policy),
            (CORP, "same-origin"),
            (reply::ORIGIN, reply.origin.as_str()),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if self.is_tls {
            headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
        }
        headers.extend(HeaderValue::from_str(trace.as_str()).ok().map(|value| (reply::REQUEST_ID, value)));
        response
    }

    /// By a token or by a session; whoever shows both could be two.
    async fn person(&self, method: &Method, headers: &HeaderMap) -> Result<Person, Box<Reply>> {
        let refuse = |refusal: AdmitRefusal| Box::new(refused(&Refusal::Admit(refusal), None));
        match self.browsers.session(headers) {
            Shown::Nothing => {
                let token = bearer(headers).map_err(refuse)?;
                Ok(Person::of(&self.believe(&token).await.map_err(refuse)?.0))
            }
            _ if headers.contains_key(AUTHORIZATION) => {
                Err(refuse(AdmitRefusal::Unauthorized("a token and a session are shown: one of them is needed")))
            }
            Shown::Odd => Err(Box::new(session::over())),
            Shown::One(id) => {
                if *method != Method::GET {
                    self.is_own(headers)?;
                }
                session::person(self, &id, Browsers::is_use(headers)).await
            }
        }
    }

    fn is_own(&self, headers: &HeaderMap) -> Result<(), Box<Reply>> {
        let told = |why| Box::new(unsaid(Code::Forbidden, &format!("{why}; nothing was done."), None));
        self.browsers.is_own(headers).map_err(told)
    }

    /// A person by their token, and until when it is good, in seconds since 1970.
    pub async fn believe(&self, token: &Secret) -> Result<(Arc<Caller>, i64), AdmitRefusal> {
        let believed = self.inside.identity.believe(token).await;
        let until_secs = believed.as_ref().map_or(0, |believed| believed.until_secs);
        // Nobody shows a certificate here: a token that is bound to one is good elsewhere.
        let caller = believed.and_then(|believed| believed.caller_with(None)).map_err(|fault| {
            self.inside.metrics.token_refused("console", fault.as_str());
            AdmitRefusal::NotBelieved(fault)
        })?;
        if caller.issuer() != self.issuer {
            self.inside.metrics.token_refused("console", "foreign");
            return Err(AdmitRefusal::Unauthorized("the token is of no issuer whose tokens are people here"));
        }
        Ok((caller, until_secs))
    }

    async fn body(&self, act: Act, headers: &HeaderMap, body: Body) -> Result<Value, Refusal> {
        check_head(headers, BODY_BYTES).map_err(Refusal::Check)?;
        let whole = match timeout(self.inside.timeouts.body, Limited::new(body, BODY_BYTES).collect()).await {
            Ok(Ok(whole)) => whole.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(Refusal::Check(CheckRefusal::TooLarge { limit_bytes: BODY_BYTES }));
            }
            Ok(Err(_)) => return Err(Refusal::BodyBroken),
            Err(_) => return Err(Refusal::BodySlow),
        };
        let Some((_, contract)) = self.contracts.iter().find(|(of, _)| *of == act) else {
            return if whole.is_empty() { Ok(Value::Null) } else { Err(has_body()) };
        };
        self.content(headers, &whole, contract).map_err(Refusal::Check)
    }

    fn content(&self, headers: &HeaderMap, whole: &Bytes, contract: &Contract) -> Result<Value, CheckRefusal> {
        if !headers.contains_key(http::header::CONTENT_TYPE) {
            return Err(CheckRefusal::MediaType("the body has no Content-Type; only application/json is taken"));
        }
        // A record is upstream's, and may hold numbers that only it writes so.
        let value = json::parse(whole, Limits::ANSWER).map_err(CheckRefusal::Json)?;
        let violations = contract.violations(&value);
        if violations.is_empty() { Ok(value) } else { Err(CheckRefusal::Violations(violations)) }
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

async fn answer(desk: Arc<Desk>, acts: Acts, act: Option<Act>, request: Request) -> Reply {
    match asked(&desk, acts, act, request).await {
        Ok((act, asked)) => perform(&desk, act, asked).await,
        Err(reply) => *reply,
    }
}

/// The right to do what is asked for, or why not; nothing of the body is read before that is clear.
async fn asked(desk: &Desk, acts: Acts, act: Option<Act>, request: Request) -> Result<(Act, Asked), Box<Reply>> {
    let refuse = |refusal: AdmitRefusal| Box::new(refused(&Refusal::Admit(refusal), None));
    let (parts, body) = request.into_parts();
    let path = plain(&parts.uri).map_err(refuse)?;
    let act = act.ok_or_else(|| refuse(wrong_address(acts)))?;
    let person = match act.needs() {
        Needs::Nothing => None,
        _ => Some(desk.person(&parts.method, &parts.headers).await?),
    };
    if act.is_for_pages() {
        desk.is_own(&parts.headers)?;
    }
    if person.as_ref().is_some_and(|person| !person.may(act.needs())) {
        let message = format!("{}; nothing was done.", act.needs().told());
        return Err(Box::new(unsaid(Code::Forbidden, &message, None)));
    }
    // What may hold anything is written otherwise, and is read by the act itself.
    let query = match act {
        Act::EndSignIn | Act::SearchHistory => Vec::new(),
        _ => query(&parts.uri).map_err(|violation| Box::new(violated(vec![violation])))?,
    };
    let target_query = parts.uri.query().unwrap_or_default().to_owned();
    let body = desk.body(act, &parts.headers, body).await;
    let body = body.map_err(|refusal| Box::new(refused(&refusal, None)))?;
    let person = person.unwrap_or_else(Person::nobody);
    Ok((act, Asked { person, path, query, target_query, headers: parts.headers, body }))
}

/// What each act does.
async fn perform(desk: &Desk, act: Act, asked: Asked) -> Reply {
    match act {
        Act::Describe => match serde_json::from_slice(SchemaFiles::of_console()) {
            Ok(document) => said(200, &document),
            Err(_) => unsaid(Code::StoreUnavailable, "the document cannot be read.", None),
        },
        Act::WaysIn => session::ways(desk),
        Act::ShowSession => session::show(desk, &asked).await,
        Act::SignIn => session::sign_in(desk, &asked).await,
        Act::SignOut => session::sign_out(desk, &asked).await,
        Act::StartSignIn => oidc::start(desk).await,
        Act::EndSignIn => oidc::end(desk, &asked).await,
        Act::EndSessions => session::end_all(desk, &asked).await,
        Act::SearchHistory => history::search(desk, &asked).await,
        Act::TellRequest => history::tell(desk, &asked).await,
        Act::CountDecisions => decisions::count(desk, &asked).await,
        Act::Explain => policies::explain(&desk.inside, &asked).await,
        Act::Usage => policies::usage(&desk.inside, &asked).await,
        Act::ShowPolicies => sets::show(&desk.inside, &asked).await,
        Act::Agree => sets::agree(&desk.inside, &asked).await,
        Act::ListFreezes => freezes::list(&desk.inside, &asked).await,
        Act::Freeze => freezes::freeze(&desk.inside, &asked).await,
        Act::Lift => freezes::lift(&desk.inside, &asked).await,
        Act::ListRequests => requests::list(&desk.inside, &asked).await,
        Act::ShowRequest => requests::show(&desk.inside, &asked).await,
        Act::Resolve => requests::resolve(&desk.inside, &asked).await,
        Act::ListHolds => holds::list(&desk.inside, &asked).await,
        // What follows is a stream.
        Act::WatchHolds => match asked.query.first() {
            Some((name, _)) => violated(vec![told::unknown_parameter(name)]),
            None => said(200, &Value::Null),
        },
        Act::ShowHold => holds::show(&desk.inside, &asked).await,
        Act::Approve => holds::say(&desk.inside, &asked, Say::Approve).await,
        Act::Reject => holds::say(&desk.inside, &asked, Say::Reject).await,
        Act::Withdraw => holds::say(&desk.inside, &asked, Say::Withdraw).await,
        Act::Comment => holds::say(&desk.inside, &asked, Say::Comment).await,
        Act::ListStandIns => stand_ins::list(&desk.inside, &asked).await,
        Act::NameStandIn => stand_ins::name(&desk.inside, &asked).await,
        Act::RevokeStandIn => stand_ins::revoke(&desk.inside, &asked).await,
    }
}

fn wrong_address(acts: Acts) -> AdmitRefusal {
    let methods: Vec<Method> = acts.iter().map(|(method, _)| method.clone()).collect();
    if methods.is_empty() { AdmitRefusal::UnknownPath } else { AdmitRefusal::MethodNotAllowed(methods) }
}

fn has_body() -> Refusal {
    Refusal::Admit(AdmitRefusal::Malformed("this request has no body"))
}

/// The parts of a path that differ, behind `/sluice/v1/` and the word after it. A path has one reading or none.
fn plain(uri: &Uri) -> Result<Vec<String>, AdmitRefusal> {
    if uri.authority().is_some() {
        return Err(AdmitRefusal::Malformed("the request target is not a path"));
    }
    if uri.path_and_query().is_some_and(|target| target.as_str().len() > LONGEST_TARGET) {
        return Err(AdmitRefusal::TargetTooLong);
    }
    let path = uri.path();
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'_' | b'-' | b'~' | b':');
    let is_odd = |segment: &str| segment.is_empty() || segment == "." || segment == "..";
    let rest = path.strip_prefix('/').unwrap_or_default();
    if !path.bytes().all(allowed) || (!rest.is_empty() && rest.split('/').any(is_odd)) {
        return Err(AdmitRefusal::Malformed("the path holds what no path here holds"));
    }
    Ok(rest.split('/').skip(3).map(str::to_owned).collect())
}

/// Names and values of characters that mean themselves, each name once.
fn query(uri: &Uri) -> Result<Vec<(String, String)>, Violation> {
    let mut found: Vec<(String, String)> = Vec::new();
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b':');
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let wrong = |keyword, expected: &str| Violation::new("", keyword, expected).inside(Place::Query);
        if !pair.bytes().all(|b| allowed(b) || b == b'=') || value.contains('=') || value.is_empty() {
            return Err(wrong("pattern", "names and values of `A-Za-z0-9._:-`"));
        }
        if found.iter().any(|(known, _)| known == name) {
            return Err(wrong("uniqueItems", "each parameter once"));
        }
        found.push((name.to_owned(), value.to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_reading_or_none() {
        let read = |target: &str| plain(&target.parse().unwrap()).ok();
        let parts = |parts: &[&str]| Some(parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
        assert_eq!(read("/sluice/v1/freezes"), parts(&[]));
        assert_eq!(read("/sluice/v1/requests/production/a:b:c"), parts(&["production", "a:b:c"]));
        for target in [
            "/sluice/v1//freezes",
            "/sluice/v1/requests/production/..",
            "/sluice/v1/requests/production/%2e%2e",
            "/sluice/v1/requests/production/a%2Fb",
            "/sluice/v1/freezes/",
            "/sluice/v1/freezes;a=b",
            "http://other.example/sluice/v1/freezes",
        ] {
            assert_eq!(read(target), None, "{target}");
        }
    }

    #[test]
    fn a_query_says_each_thing_once_and_plainly() {
        let read = |query: &str| super::query(&format!("/x?{query}").parse().unwrap()).ok();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read("limit=5&after=production:a"), Some(vec![pair("limit", "5"), pair("after", "production:a")]));
        assert_eq!(read(""), Some(Vec::new()));
        for odd in ["limit=5&limit=6", "limit", "limit=", "limit=5%30", "limit=a=b", "limit[]=5", "limit=5+5"] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }
}
