//! Checks of the settings of traces.

use http::header::HeaderValue;

use super::super::fault::SettingFault;
use super::super::url;
use super::super::written::WrittenConfig;
use super::{Wrong, error};
use crate::base::finding::Severity;

pub(super) fn wrong(written: &WrittenConfig) -> Option<Wrong> {
    let said = written.otlp_authorization.as_ref()?;
    let Some(to) = &written.otlp else {
        let fault = SettingFault::new("`telemetry.otlp_authorization` has no effect without `otlp`");
        return Some(error(
            &said.place,
            fault.remedy("set `otlp` to the collector's URL, or remove `otlp_authorization`"),
        ));
    };
    if HeaderValue::from_str(said.value.reveal()).is_err() {
        let fault =
            SettingFault::new("`telemetry.otlp_authorization` contains characters that a header cannot contain");
        return Some(error(&said.place, fault.remedy("write one line, such as `Bearer …`")));
    }
    if url::is_safe(&to.value) {
        return None;
    }
    let text = "`telemetry.otlp_authorization` is sent to another machine by plain HTTP: anyone on the network path can read it";
    Some((Severity::Insecure, to.place.clone(), SettingFault::new(text).remedy("use `https://` in `otlp`")))
}
