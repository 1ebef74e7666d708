//! Where traces go, and what is said for that.

use http::header::HeaderValue;

use super::super::fault::Fault;
use super::super::url;
use super::super::written::Written;
use super::{Wrong, error};
use crate::base::finding::Severity;

pub(super) fn wrong(written: &Written) -> Option<Wrong> {
    let said = written.otlp_authorization.as_ref()?;
    let Some(to) = &written.otlp else {
        let fault = Fault::new("`telemetry.otlp_authorization` has no use without `otlp`");
        return Some(error(&said.place, fault.remedy("write `otlp`, the collector's URL, or leave it out")));
    };
    if HeaderValue::from_str(said.value.reveal()).is_err() {
        let fault = Fault::new("`telemetry.otlp_authorization` holds what no header may");
        return Some(error(&said.place, fault.remedy("put one line into it, as `Bearer …`")));
    }
    if url::is_safe(&to.value) {
        return None;
    }
    let text = "`telemetry.otlp_authorization` goes to another machine by plain HTTP: anyone between can read it";
    Some((Severity::Warning, to.place.clone(), Fault::new(text).remedy("write `https://` in `otlp`")))
}
