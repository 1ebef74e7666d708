//! The path of every request to the console: act, credentials, role, and only then the body.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Uri};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::time::timeout;

use super::acts::Act;
use super::browser::{Browsers, CookieValue};
use super::person::{Needs, Person};
use super::request::{ActRequest, BodySender, PeerAddress, violated};
use super::server::ConsoleServer;
use super::{changes, session};
use crate::adapters::clock::Stopwatch;
use crate::adapters::random::trace_id;
use crate::adapters::rate::RoomShare;
use crate::base::json::{self, Limits};
use crate::catalog::{BodyPlace, Contract, Violation};
use crate::edge::arriving::ArrivingBody;
use crate::edge::guard::Unreadable;
use crate::stations::admit::{AdmitRefusal, LONGEST_TARGET, bearer};
use crate::stations::check::{CheckRefusal, check_head};
use crate::stations::claim::Owner;
use crate::stations::reply::{self, Code, Refusal, Reply, error_json, refused};
use crate::telemetry::ConsoleLine;

impl ConsoleServer {
    /// Answers a request to a path that has these acts; a path without acts is unknown.
    pub async fn serve(self: &Arc<Self>, acts: Vec<&'static Act>, request: Request) -> Response {
        let (_open, since) = (self.inside.requests.token(), Stopwatch::start());
        let trace = trace_id(request.headers().get(reply::REQUEST_ID).and_then(|h| h.to_str().ok()));
        let act = acts.iter().copied().find(|act| act.method == *request.method());
        let name = act.map_or("none", |act| act.name);
        let shown = self.browsers.session(request.headers());
        // An act that has begun completes even if the client disconnects.
        let answering = tokio::spawn(answer(self.clone(), acts, act, request));
        let (reply, who) = answering.await.unwrap_or_else(|error| {
            tracing::error!(%error, "an act of the console failed");
            let message = "the outcome of this act is unknown: check it before you try again.";
            (error_json(Code::StoreUnavailable, message, None), Person::nobody().who)
        });
        let code = reply.code.map_or("none", Code::as_str);
        let line = ConsoleLine { request_id: trace.as_str(), act: name, status: reply.status, code };
        line.write(since.elapsed());
        self.inside.metrics.console_answered(name, reply.status);
        if !act.is_some_and(|act| act.is_stream) || reply.status != 200 {
            return self.finish(reply, &trace);
        }
        let mut room = self.streams.share_of(who);
        match room.grow(1) {
            true => {
                let mut response = self.finish(reply, &trace);
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
                *response.body_mut() = changes::stream(self.clone(), shown, room);
                response
            }
            false => self.finish(
                error_json(
                    Code::Overloaded,
                    "you have too many event streams open, or all people together; close some.",
                    None,
                ),
                &trace,
            ),
        }
    }

    /// Answers bytes that are not a valid request.
    pub fn unreadable(&self, why: Unreadable) -> Response {
        let refusal = match why {
            Unreadable::HeadTooLarge | Unreadable::TooManyHeaders => AdmitRefusal::HeadTooLarge(why.message()),
            Unreadable::HeadSlow => AdmitRefusal::HeadSlow,
            other => AdmitRefusal::Malformed(other.message()),
        };
        let reply = refused(&Refusal::Admit(refusal), None);
        self.inside.metrics.console_answered("none", reply.status);
        self.finish(reply, &trace_id(None))
    }

    /// Identifies the person, and takes this act from the rates of the person and the address. A token is always looked at; a
    /// session, which the store has, only as often as the address may err, unless the store showed it before. An act that
    /// stops money is not refused for that: its session waits for its turn.
    async fn person_from(
        &self,
        peer: IpAddr,
        act: &Act,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Person, Box<Reply>> {
        let cookie = self.browsers.session(headers);
        let has_cookie = !matches!(cookie, CookieValue::Nothing);
        let is_known = matches!(&cookie, CookieValue::One(id) if self.believed.contains(id));
        let counts = has_cookie && !is_known;
        let taken = if counts { self.rates.unbelieved_from(peer) } else { Ok(()) };
        let _turn = match &taken {
            Err(limited) if !act.stops_money() => return Err(limited.clone()),
            Err(_) => self.session_turns.acquire().await.ok(),
            Ok(()) => None,
        };
        let person = match self.person(method, headers).await {
            Ok(person) => person,
            Err(refusal) if has_cookie => {
                if let CookieValue::One(id) = &cookie {
                    self.believed.remove(id);
                }
                return Err(refusal);
            }
            Err(refusal) => return Err(self.rates.unbelieved_from(peer).err().unwrap_or(refusal)),
        };
        if counts && taken.is_ok() {
            self.rates.believed_from(peer);
        }
        if let CookieValue::One(id) = &cookie {
            self.believed.add(id);
        }
        match act.stops_money() && person.may(act.needs) {
            true => self.rates.stop_of(&person.who)?,
            false => self.rates.act_of(&person.who, peer)?,
        }
        Ok(person)
    }

    /// Identifies the person by a token or a session; a request with both is refused, because they could be two people.
    async fn person(&self, method: &Method, headers: &HeaderMap) -> Result<Person, Box<Reply>> {
        let refuse = |refusal: AdmitRefusal| Box::new(refused(&Refusal::Admit(refusal), None));
        match self.browsers.session(headers) {
            CookieValue::Nothing => {
                let token = bearer(headers).map_err(refuse)?;
                Ok(Person::of(&self.verify_token(&token).await.map_err(refuse)?.0))
            }
            _ if headers.contains_key(AUTHORIZATION) => Err(refuse(AdmitRefusal::Unauthorized(
                "the request has a token and a session cookie: send only one of them",
            ))),
            CookieValue::Invalid => Err(Box::new(session::over())),
            CookieValue::One(id) => {
                if *method != Method::GET {
                    self.is_own(headers)?;
                }
                session::person(self, &id, Browsers::is_use(headers)).await
            }
        }
    }

    fn is_own(&self, headers: &HeaderMap) -> Result<(), Box<Reply>> {
        let refused = |why| Box::new(error_json(Code::Forbidden, &format!("{why}; nothing was done."), None));
        self.browsers.is_own(headers).map_err(refused)
    }

    async fn body(
        &self,
        act: &Act,
        headers: &HeaderMap,
        body: Body,
        room: RoomShare<BodySender>,
    ) -> Result<(Value, RoomShare<BodySender>), Refusal> {
        let limit_bytes = act.body_bytes;
        check_head(headers, limit_bytes).map_err(Refusal::Check)?;
        let stated = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let arriving = ArrivingBody::new(room, stated, limit_bytes);
        let read = timeout(self.inside.timeouts.body, read_body(body, arriving)).await;
        let (whole, room) = read.map_err(|_| Refusal::BodySlow)??;
        let Some(contract) = act.body.and_then(|schema| self.contracts.get(schema)) else {
            return if whole.is_empty() { Ok((Value::Null, room)) } else { Err(has_body()) };
        };
        Ok((self.content(headers, &whole, contract).map_err(Refusal::Check)?, room))
    }

    fn content(&self, headers: &HeaderMap, whole: &[u8], contract: &Contract) -> Result<Value, CheckRefusal> {
        if !headers.contains_key(http::header::CONTENT_TYPE) {
            return Err(CheckRefusal::MediaType("the body has no Content-Type; only application/json is accepted"));
        }
        // A body may contain upstream's record, with numbers as only upstream writes them.
        let value = json::parse(whole, Limits::PERSON).map_err(CheckRefusal::Json)?;
        let violations = contract.violations(&value);
        if violations.is_empty() { Ok(value) } else { Err(CheckRefusal::Violations(violations)) }
    }
}

async fn read_body(
    mut body: Body,
    mut arriving: ArrivingBody<BodySender>,
) -> Result<(Vec<u8>, RoomShare<BodySender>), Refusal> {
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|_| Refusal::BodyBroken)?.into_data() else { continue };
        arriving.add(&piece)?;
    }
    arriving.whole()
}

async fn answer(
    server: Arc<ConsoleServer>,
    acts: Vec<&'static Act>,
    act: Option<&'static Act>,
    request: Request,
) -> (Reply, Owner) {
    match authorize(&server, &acts, act, request).await {
        Ok((act, asked)) => ((act.handler)(&server, &asked).await, asked.person.who),
        Err(reply) => (*reply, Person::nobody().who),
    }
}

/// Authorizes a request and reads it; the body is read only after the authorization.
async fn authorize(
    server: &ConsoleServer,
    acts: &[&Act],
    act: Option<&'static Act>,
    request: Request,
) -> Result<(&'static Act, ActRequest), Box<Reply>> {
    let refuse = |refusal: AdmitRefusal| Box::new(refused(&Refusal::Admit(refusal), None));
    let (parts, body) = request.into_parts();
    let peer = parts.extensions.get::<PeerAddress>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0);
    let found = path_variables(&parts.uri).and_then(|path| Ok((path, act.ok_or_else(|| wrong_address(acts))?)));
    let (path, act) = match found {
        Ok((path, act)) if act.needs != Needs::Nothing => (path, act),
        found => {
            server.rates.open_act_from(peer)?;
            found.map_err(refuse)?
        }
    };
    let person = match act.needs {
        Needs::Nothing => None,
        _ => Some(server.person_from(peer, act, &parts.method, &parts.headers).await?),
    };
    if act.is_for_pages {
        server.is_own(&parts.headers)?;
    }
    if person.as_ref().is_some_and(|person| !person.may(act.needs)) {
        let message = format!("{}; nothing was done.", act.needs.refusal_text());
        return Err(Box::new(error_json(Code::Forbidden, &message, None)));
    }
    let query = match act.takes_any_query {
        true => Vec::new(),
        false => query(&parts.uri).map_err(|violation| Box::new(violated(vec![violation])))?,
    };
    let target_query = parts.uri.query().unwrap_or_default().to_owned();
    let sender = person.as_ref().map_or(BodySender::Address(peer), |person| BodySender::Person(person.who.clone()));
    let body = server.body(act, &parts.headers, body, server.bodies.share_of(sender)).await;
    let (body, room) = body.map_err(|refusal| Box::new(refused(&refusal, None)))?;
    let person = person.unwrap_or_else(Person::nobody);
    Ok((act, ActRequest { person, peer, path, query, target_query, headers: parts.headers, body, _room: room }))
}

fn wrong_address(acts: &[&Act]) -> AdmitRefusal {
    let methods: Vec<Method> = acts.iter().map(|act| act.method.clone()).collect();
    if methods.is_empty() { AdmitRefusal::UnknownPath } else { AdmitRefusal::MethodNotAllowed(methods) }
}

fn has_body() -> Refusal {
    Refusal::Admit(AdmitRefusal::Malformed("this request must not have a body"))
}

/// Returns the variable parts of a path after `/sluice/v1/` and the next word. Escapes and ambiguous paths are refused.
fn path_variables(uri: &Uri) -> Result<Vec<String>, AdmitRefusal> {
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
        return Err(AdmitRefusal::Malformed("the path has characters or segments that no path of the console has"));
    }
    Ok(rest.split('/').skip(3).map(str::to_owned).collect())
}

/// Parses a query of unescaped names and values, each name once.
fn query(uri: &Uri) -> Result<Vec<(String, String)>, Violation> {
    let mut found: Vec<(String, String)> = Vec::new();
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b':');
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let wrong = |keyword, expected: &str| Violation::new("", keyword, expected).inside(BodyPlace::Query);
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
        let read = |target: &str| path_variables(&target.parse().unwrap()).ok();
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
