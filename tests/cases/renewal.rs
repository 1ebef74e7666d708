//! Certificates, keys and contract that change while the gate runs; and what needs a restart.

use std::path::Path;

use reqwest::Client;
use serde_json::Value;

use crate::support::clock::wait_until;
use crate::support::gate::EVERYTHING;
use crate::support::shape::{operation, valid};
use crate::support::tls::{Authority, Certified};
use crate::support::token::token;
use crate::support::{Gate, Setup, Upstream, copy_folder, post};

const IN_USE: &str = "the reloaded configuration is in use";
const STAYED: &str = "the new configuration or policies have errors; those in use stay";

fn told(gate: &Gate, message: &str, after: usize) -> Value {
    gate.log.wait(message, |lines| lines.iter().filter(|line| line["message"] == message).nth(after).cloned())
}

fn put(gate: &Gate, certified: &Certified) {
    std::fs::write(gate.path("cert.pem"), &certified.certificate).unwrap();
    std::fs::write(gate.path("key.pem"), &certified.key).unwrap();
}

fn client(authority: &Authority) -> Client {
    let builder = Client::builder().no_proxy().tls_backend_preconfigured(authority.client(&[b"http/1.1"]));
    builder.http1_only().build().unwrap()
}

async fn status(client: &Client, gate: &Gate) -> Result<u16, reqwest::Error> {
    let url = format!("https://{}/v2/users", gate.production());
    client.get(url).bearer_auth(token()).send().await.map(|answer| answer.status().as_u16())
}

#[tokio::test]
async fn a_certificate_is_replaced_and_a_broken_one_is_not_taken() {
    let upstream = Upstream::start();
    let [former, next] = [Authority::new(), Authority::new()];
    let own = former.certify(&["127.0.0.1"]);
    let gate = Setup::of(&upstream)
        .file("cert.pem", &own.certificate)
        .file("key.pem", &own.key)
        .set("production", "tls_certificate", "cert.pem")
        .set_raw("production", "tls_key", r#"{ file = "key.pem" }"#)
        .start();
    let (old, new) = (client(&former), client(&next));
    assert_eq!(status(&old, &gate).await.unwrap(), 200);
    assert!(status(&new, &gate).await.is_err());

    // By a change of the files alone.
    put(&gate, &next.certify(&["127.0.0.1"]));
    assert_eq!(told(&gate, IN_USE, 0)["changed"], "certificates of production");
    assert_eq!(status(&new, &gate).await.unwrap(), 200);
    // A connection that was open before goes on; another is not made.
    assert_eq!(status(&old, &gate).await.unwrap(), 200);
    assert!(status(&client(&former), &gate).await.is_err());
    assert_eq!(gate.metric("sluice_reloads_total{outcome=\"changed\"}"), 1);

    // All or nothing: with a key that does not fit, rules that are good take no force either.
    std::fs::write(gate.path("key.pem"), &own.key).unwrap();
    let nothing = "[[rule]]\nid = \"nothing\"\neffect = \"deny\"\nwhen = { op = \"*\" }\n";
    std::fs::write(gate.path("policies/everything.toml"), format!("{EVERYTHING}{nothing}")).unwrap();
    gate.signal("HUP");
    told(&gate, STAYED, 0);
    assert_eq!(status(&client(&next), &gate).await.unwrap(), 200);
    assert_eq!(gate.metric("sluice_reload_faulty"), 1);

    put(&gate, &next.certify(&["127.0.0.1"]));
    gate.signal("HUP");
    told(&gate, IN_USE, 1);
    assert_eq!((status(&client(&next), &gate).await.unwrap(), gate.metric("sluice_reload_faulty")), (403, 0));
}

#[test]
fn a_secret_of_an_issuer_is_replaced() {
    let upstream = Upstream::start();
    let secret = crate::support::token::SECRET;
    let gate =
        Setup::of(&upstream).file("secret", secret).set_raw("issuer.main", "shared_secret", r#"{ file = "secret" }"#);
    let gate = gate.start();
    let read = || valid(operation("listUsers")).send(gate.production()).status;
    assert_eq!(read(), 200);
    std::fs::write(gate.path("secret"), "another secret, as long as it needs to be for this").unwrap();
    gate.signal("HUP");
    assert_eq!(told(&gate, IN_USE, 0)["changed"], "keys of main");
    assert_eq!(read(), 401);
    std::fs::write(gate.path("secret"), secret).unwrap();
    wait_until("the secret to be as it was", || read() == 200);
}

#[test]
fn a_contract_is_replaced_and_what_needs_a_restart_is_named() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream).set("catalog", "schemas", "schemas");
    copy_folder(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/schemas")), &setup.path("schemas"));
    let gate = setup.start();
    let link = || post("/tos-link").json("{}").send(gate.production());
    assert_eq!(link().status, 404);

    let written = std::fs::read_to_string(gate.path("sluice.toml")).unwrap();
    let with = written.replace("[catalog]\n", "[catalog]\nenable = [\"createTosLink\"]\n");
    std::fs::write(gate.path("sluice.toml"), format!("{with}[limits]\nbody_bytes = 4096\n")).unwrap();
    gate.signal("HUP");
    assert_eq!(told(&gate, IN_USE, 0)["changed"], "contract, with createTosLink; policies");
    assert_eq!(told(&gate, "these settings changed and need a restart", 0)["settings"], "limits.body_bytes");
    assert_eq!(gate.metric("sluice_reload_needs_restart"), 1);
    assert_eq!(link().status, 200);

    // A contract that is none stays away.
    std::fs::write(gate.path("schemas/openapi.json"), "{").unwrap();
    told(&gate, STAYED, 0);
    assert_eq!(link().status, 200);
    assert!(gate.probe("/readyz").text().contains("stays in force"));
}
