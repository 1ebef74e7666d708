use super::export::batch_json;
use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn tracer(one_in: u64) -> (Tracer, mpsc::Receiver<QueuedSpan>) {
    let (queue, waiting) = mpsc::channel(1);
    (Tracer { queue, metrics: Metrics::new().unwrap(), one_in }, waiting)
}

fn caller(traceparent: &str) -> HeaderMap {
    [(TRACEPARENT, HeaderValue::from_str(traceparent).unwrap())].into_iter().collect()
}

#[test]
fn a_trace_goes_on_and_its_spans_are_told_together() {
    let (tracer, mut waiting) = tracer(1);
    let headers = caller(PARENT);
    let spans = tracer.begin(&headers);
    drop(spans.enter(Station::Admit));
    let forward = spans.enter(Station::Forward);
    let sent = forward.headers(&headers).get(TRACEPARENT).unwrap().to_str().unwrap().to_owned();
    drop(spans);
    assert!(waiting.try_recv().is_err(), "one is open");
    drop(forward);
    let QueuedSpan::Trace(trace) = waiting.try_recv().unwrap() else { panic!("a trace") };
    let told = batch_json(&[trace], "n1");
    let told = told.pointer("/resourceSpans/0/scopeSpans/0/spans").unwrap().as_array().unwrap().clone();
    assert_eq!(told.len(), 3);
    assert_eq!(told[0]["parentSpanId"], "b7ad6b7169203331");
    assert_eq!(told[2]["name"], "forward");
    assert_eq!(told[2]["parentSpanId"], told[0]["spanId"]);
    assert_eq!(sent, format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", told[2]["spanId"].as_str().unwrap()));
}

#[test]
fn what_is_not_sampled_is_passed_as_it_came() {
    let (tracer, _waiting) = tracer(1);
    let headers = caller(&PARENT.replace("-01", "-00"));
    let spans = tracer.begin(&headers);
    assert!(spans.id().is_none());
    assert_eq!(*spans.enter(Station::Forward).headers(&headers), headers);
}

#[test]
fn what_is_malformed_begins_anew_and_of_many_one_is_traced() {
    let (tracer, _waiting) = tracer(4);
    let traced = (0..400).filter(|_| tracer.begin(&caller("00-nonsense")).id().is_some()).count();
    assert!((20..300).contains(&traced), "{traced}");
}

#[test]
fn what_finds_no_room_is_dropped_and_counted() {
    let (tracer, _waiting) = tracer(1);
    (0..3).for_each(|_| drop(tracer.begin(&HeaderMap::new())));
    let text = String::from_utf8(tracer.metrics.text().unwrap()).unwrap();
    assert!(text.contains("sluice_spans_total{outcome=\"dropped\"} 2"), "{text}");
}
