//! Where traces go, and what is said for that.

use super::*;

const COLLECTOR: &str = "otlp = \"https://traces.example.com\"\n";
const SAID: &str = "otlp_authorization = { file = \"said\" }\n";

fn read_telemetry(written: &str, said: &str) -> Result<ConfigReading, Vec<Finding>> {
    read_in(&format!("{MINIMAL}{ISSUER}[telemetry]\n{written}"), &[("said", said)], &[])
}

#[test]
fn a_collector_has_what_is_said_to_it_and_nobody_prints_it() {
    let config = read_telemetry(&format!("{COLLECTOR}{SAID}"), "Basic Zm9yIGl0\n").unwrap().config;
    let traces = config.traces.as_ref().unwrap();
    assert_eq!((traces.url.as_str(), traces.one_in), ("https://traces.example.com", 1));
    assert_eq!(traces.authorization.as_ref().unwrap().reveal(), "Basic Zm9yIGl0");
    assert!(!format!("{config:?}").contains("Zm9y"));
    assert!(read_telemetry("", "").unwrap().config.traces.is_none());
}

#[test]
fn what_is_said_to_nobody_or_in_the_open_or_is_no_header_is_told() {
    let wrong = |written: &str, said: &str| match read_telemetry(written, said) {
        Ok(reading) => reading.warnings,
        Err(findings) => findings,
    };
    let nobody = wrong(SAID, "Bearer a");
    assert!(nobody[0].to_string().contains("has no effect without `otlp`"), "{}", nobody[0]);
    let open = wrong(&format!("{}{SAID}", COLLECTOR.replace("https", "http")), "Bearer a");
    assert!(open[0].to_string().contains("by plain HTTP"), "{}", open[0]);
    assert!(wrong(&format!("otlp = \"http://127.0.0.1:4318\"\n{SAID}"), "Bearer a").is_empty());
    let none = wrong(&format!("{COLLECTOR}{SAID}"), "Bearer a\nX: b");
    assert!(none[0].to_string().contains("a header cannot contain"), "{}", none[0]);
    assert!(!none[0].to_string().contains("X: b"));
}
