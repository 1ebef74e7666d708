//! Traces: Sluice is a span of its own where it exports them, and passes on what callers say where it does not.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::clock::wait_until;
use crate::support::shape::{operation, valid};
use crate::support::{Act, Call, Gate, Setup, Upstream, get};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

fn traceparent() -> String {
    format!("00-{TRACE}-{CALLER}-01")
}

fn traced(upstream: &Upstream, collector: &Upstream) -> Setup {
    Setup::of(upstream).set("telemetry", "otlp", &collector.url())
}

/// The spans of a trace, as soon as the one of this name is there.
fn spans(collector: &Upstream, name: &str) -> Vec<Value> {
    let mut found = Vec::new();
    wait_until("the spans of a request", || {
        found = collector
            .seen()
            .iter()
            .flat_map(|seen| {
                assert_eq!(seen.line(), "POST /v1/traces");
                let told: Value = serde_json::from_slice(&seen.body).unwrap();
                told.pointer("/resourceSpans/0/scopeSpans/0/spans").unwrap().as_array().unwrap().clone()
            })
            .collect();
        let of = found.iter().find(|span: &&Value| span["name"] == name).map(|span| span["traceId"].clone());
        found.retain(|span| Some(&span["traceId"]) == of.as_ref());
        !found.is_empty()
    });
    found
}

fn by_name(spans: &[Value]) -> BTreeMap<&str, &Value> {
    let named: BTreeMap<&str, &Value> = spans.iter().map(|span| (span["name"].as_str().unwrap(), span)).collect();
    assert_eq!(named.len(), spans.len());
    named
}

fn sent(upstream: &Upstream) -> Option<String> {
    upstream.seen().last().unwrap().head.header("traceparent")
}

#[test]
fn a_payment_has_a_span_for_each_station_and_upstream_is_told_the_one_that_calls_it() {
    let (upstream, collector) = (Upstream::start(), Upstream::start());
    let gate = traced(&upstream, &collector).start();
    let call = valid(operation("createSwap")).header("traceparent", traceparent()).header("tracestate", "a=1");
    let call = call.header("X-Request-Id", "t-1");
    call.send(gate.production());
    let spans = spans(&collector, "createSwap");
    let named = by_name(&spans);
    let names: Vec<&str> = named.keys().copied().collect();
    assert_eq!(names, ["admit", "check", "commit", "createSwap", "decide", "forward", "record", "settle"]);
    let root = named["createSwap"];
    assert_eq!((&root["traceId"], &root["parentSpanId"]), (&TRACE.into(), &CALLER.into()));
    let time = |span: &Value, name: &str| span[name].as_str().unwrap().parse::<u128>().unwrap();
    for (name, span) in &named {
        assert!(time(span, "startTimeUnixNano") <= time(span, "endTimeUnixNano"), "{name}");
        assert!(time(span, "startTimeUnixNano") >= time(root, "startTimeUnixNano"), "{name}");
        if *name != "createSwap" {
            assert_eq!(span["parentSpanId"], root["spanId"], "{name}");
        }
    }
    let forward = named["forward"]["spanId"].as_str().unwrap();
    assert_eq!(sent(&upstream), Some(format!("00-{TRACE}-{forward}-01")));
    assert_eq!(upstream.seen().last().unwrap().head.header("tracestate").as_deref(), Some("a=1"));
    assert_eq!(gate.request_line("t-1")["trace_id"], TRACE);
    assert_says_nothing_personal(&collector, &call);
}

/// No value that the caller sent stands in what is exported, but the name of the exchange.
fn assert_says_nothing_personal(collector: &Upstream, call: &Call) {
    fn texts(value: &Value, all: &mut Vec<String>) {
        match value {
            Value::String(text) => all.push(text.clone()),
            Value::Array(values) => values.iter().for_each(|value| texts(value, all)),
            Value::Object(values) => values.values().for_each(|value| texts(value, all)),
            _ => {}
        }
    }
    let mut said = vec!["/v2".to_owned()];
    texts(&serde_json::from_slice(&call.body_bytes()).unwrap(), &mut said);
    let exported: String = collector.seen().iter().map(|seen| seen.text()).collect();
    for text in said.iter().filter(|text| text.len() > 2) {
        assert!(!exported.contains(text.as_str()), "{text} is exported");
    }
}

#[test]
fn reads_are_traced_whether_they_stream_or_are_checked_first() {
    for enforced in [false, true] {
        let (upstream, collector) = (Upstream::start(), Upstream::start());
        upstream.always(Act::json(200, r#"{"data":[]}"#));
        let setup = traced(&upstream, &collector);
        let gate = if enforced { setup.enforce().start() } else { setup.start() };
        get("/v2/users").send(gate.production());
        let spans = spans(&collector, "listUsers");
        let named = by_name(&spans);
        assert_eq!(named.keys().copied().collect::<Vec<_>>(), ["admit", "check", "decide", "forward", "listUsers"]);
        let (root, forward) = (named["listUsers"], named["forward"]);
        assert!(root.get("parentSpanId").is_none(), "it begins here");
        let expected = format!("00-{}-{}-01", root["traceId"].as_str().unwrap(), forward["spanId"].as_str().unwrap());
        assert_eq!(sent(&upstream), Some(expected));
        let status = root["attributes"].as_array().unwrap().iter().find(|a| a["key"] == "http.response.status_code");
        let answered = gate.metric("sluice_requests_in_flight");
        assert_eq!((status.is_some(), answered), (true, 0));
    }
}

#[test]
fn what_is_refused_is_traced_too_and_what_its_caller_does_not_keep_is_not() {
    let (upstream, collector) = (Upstream::start(), Upstream::start());
    let gate = traced(&upstream, &collector).start();
    let unsampled = traceparent().replace("-01", "-00");
    get("/v2/users").header("traceparent", &unsampled).send(gate.production());
    assert_eq!(sent(&upstream), Some(unsampled));
    get("/nowhere").send(gate.production());
    let spans = spans(&collector, "none");
    assert_eq!(by_name(&spans).keys().copied().collect::<Vec<_>>(), ["admit", "none"]);
    let told: String = collector.seen().iter().map(|seen| seen.text()).collect();
    assert!(!told.contains(TRACE));
}

#[test]
fn without_a_collector_trace_context_passes_as_it_came_if_it_is_well_formed() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    get("/v2/users").header("traceparent", traceparent()).header("X-Request-Id", "t-1").send(gate.production());
    assert_eq!(sent(&upstream), Some(traceparent()));
    assert!(gate.request_line("t-1").get("trace_id").is_none());
    for malformed in ["00-nonsense", &traceparent().to_uppercase(), &format!("{}-x", traceparent())] {
        get("/v2/users").header("traceparent", malformed).header("tracestate", "a=1").send(gate.production());
        assert_eq!(sent(&upstream), None, "{malformed}");
        assert_eq!(upstream.seen().last().unwrap().head.header("tracestate"), None, "{malformed}");
    }
}

#[test]
fn a_collector_that_is_away_or_refuses_costs_spans_and_nothing_else() {
    let (upstream, collector) = (Upstream::start(), Upstream::start());
    collector.always(Act::json(503, "{}"));
    for url in [collector.url(), "http://127.0.0.1:9".to_owned()] {
        let gate = Setup::of(&upstream).set("telemetry", "otlp", &url).start();
        for _ in 0..5 {
            assert_eq!(get("/v2/users").send(gate.production()).status, 200);
        }
        let dropped = |gate: &Gate| gate.metric("sluice_spans_total{outcome=\"dropped\"}");
        wait_until("spans to be dropped and counted", || dropped(&gate) >= 25);
        assert_eq!(gate.metric("sluice_spans_total{outcome=\"exported\"}"), 0);
    }
}

#[test]
fn a_collector_is_told_who_speaks_and_what_was_traced_last_before_the_process_ends() {
    let (upstream, collector) = (Upstream::start(), Upstream::start());
    let setup = traced(&upstream, &collector).file("otlp.secret", "Bearer of-the-collector\n");
    let gate = setup.set_raw("telemetry", "otlp_authorization", r#"{ file = "otlp.secret" }"#).start();
    get("/v2/users").send(gate.production());
    gate.end();
    let seen = collector.seen();
    assert!(seen.iter().any(|batch| batch.text().contains("\"listUsers\"")), "the last spans are lost");
    let said = |name: &str| seen[0].head.header(name);
    assert_eq!(said("authorization").as_deref(), Some("Bearer of-the-collector"));
}
