//! Webhooks are told once of policies that wait for two people, and of what they would have changed.

use serde_json::{Value, json};

use super::{hook, messages, wait_for, waiting};
use crate::cases::console::console;
use crate::support::clock::wait_until;
use crate::support::{Gate, Setup, Upstream, post};

fn up_to(most: u32) -> String {
    format!(
        "[[rule]]\nid = \"small\"\neffect = \"allow\"\nwhen = {{ op = \"createSwap\", amount = \"(0, {most}] USD\" }}\n"
    )
}

fn write(gate: &Gate, text: &str) {
    std::fs::write(gate.path("policies/everything.toml"), text).unwrap();
}

fn pay(gate: &Gate, request_id: &str, amount: &str) -> u16 {
    let body = json!({
        "requestId": request_id,
        "source": {"chain": "POLYGON", "currency": "usdc", "amount": amount},
        "destination": {"chain": "POLYGON", "currency": "usdt", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
    });
    post("/v2/wallets/swaps").json(body.to_string()).send(gate.production()).status
}

#[test]
fn policies_that_wait_are_told_once_with_what_they_would_have_changed() {
    let (upstream, plain, full) = (Upstream::start(), Upstream::start(), Upstream::start());
    let setup = console(Setup::of(&upstream)).set("", "loosening", "two-people").set(
        "console",
        "public_url",
        "https://console.test/",
    );
    let setup = hook(hook(setup.file("policies/everything.toml", &up_to(50)), "plain", &plain), "full", &full);
    let gate = setup.set_raw("webhook.full", "details", "true").start();
    assert_eq!((pay(&gate, "r-0", "90"), pay(&gate, "r-1", "60"), pay(&gate, "r-2", "20")), (403, 403, 200));
    write(&gate, &up_to(100));
    let told = wait_for(&full, 1);
    let data = &told[0]["data"];
    assert_eq!((&told[0]["type"], &data["state"]), (&json!("policies.waiting"), &json!("waiting")));
    assert!(data["version"].as_str().unwrap().len() == 64 && data["version"] != data["replaces"], "{data}");
    assert!(data["link"].as_str().unwrap().ends_with("/#/policy"), "{data}");
    let change = "createSwap: now allowed without people, denied before: 50.000001 USD to 100 USD, any caller, any destination, any time";
    assert_eq!(data["changes"], json!([change]), "{data}");
    let windows = data["history"]["windows"].as_array().unwrap();
    assert_eq!(windows.iter().map(|one| &one["days"]).collect::<Vec<_>>(), [&json!(7), &json!(30), &json!(90)]);
    for window in windows {
        let largest = json!({"microUsd": 90_000_000, "caller": "main:test"});
        let changes = json!([{"environment": "production", "before": "deny", "then": "allow", "count": 2,
                              "microUsd": 150_000_000, "unvalued": 0, "largest": largest}]);
        assert_eq!((&window["decisions"], &window["changes"]), (&json!(3), &changes), "{data}");
    }
    // Without details: the same, and neither amounts nor callers.
    let bare = wait_for(&plain, 1);
    let data = &bare[0]["data"];
    assert_eq!(data["changes"], json!(["createSwap: now allowed without people, denied before"]));
    assert_eq!(
        data["history"]["windows"][0]["changes"],
        json!([{"environment": "production", "before": "deny", "then": "allow", "count": 2}])
    );
    for private in ["50", "90000000", "main:test", "0x5a", "r-0"] {
        let said = data["changes"].to_string() + &data["history"].to_string();
        assert!(!said.replace(data["history"]["until"].as_str().unwrap(), "").contains(private), "{private}: {data}");
    }
    // A restart tells nothing anew, and another set is told of.
    wait_until("nothing to wait", || waiting(&gate, "full") == 0);
    let gate = gate.kill().start();
    write(&gate, &up_to(200));
    wait_until("the other set", || full.seen().len() >= 2);
    let versions: Vec<Value> = messages(&full).iter().map(|message| message["data"]["version"].clone()).collect();
    assert_eq!(versions.len(), 2);
    assert_ne!(versions[0], versions[1]);
}
