//! New destinations: a small payment opens nothing, an approved one does; and the descriptions that people see of it.

use serde_json::json;

use super::*;
use crate::cases::claims::audit::entries;
use crate::cases::claims::told;

/// A destination is new for a day, and its description stands beside the name.
fn rules() -> String {
    let new = "[[rule]]\nid = \"newcomers\"\ndescription = \"A stolen token would pay somebody new.\"\neffect = \"hold\"\n\
               approval = \"dual\"\nwhen = { op = \"createSwap\", amount = \"(10, 100] USD\", destination = { new = true, \
               cooldown = \"24h\" } }\n";
    format!("{RULES}{new}")
}

/// The probe of a thief: a small payment, then large ones to the same destination.
fn a_probe_opens_nothing(setup: Setup) {
    let gate = setup.start();
    assert_eq!(told(&swap("probe-1", "0.000001").send(gate.production())), "201 - executed");
    assert_eq!(told(&swap("probe-2", "1").send(gate.production())), "201 - executed");
    let call = swap("after", "90");
    let waits = call.send(gate.production());
    assert_eq!((waits.status, waits.outcome()), (202, "held".to_owned()), "{waits}");
    let hold = waits.json()["hold"].clone();
    all_agree(&gate, &hold);
    assert_eq!(told(&answered(&gate, &call)), "201 - executed again");
    // People have seen this destination: it is known from now on, also at a gate that starts anew.
    assert_eq!(told(&swap("known-1", "90").send(gate.production())), "201 - executed");
    let gate = gate.end().start();
    assert_eq!(told(&swap("known-2", "90").send(gate.production())), "201 - executed");
}

#[test]
fn a_probe_opens_no_destination_and_an_approval_does() {
    a_probe_opens_nothing(gate(&Upstream::start(), &rules()));
}

#[test]
fn a_probe_opens_no_destination_in_a_redis_either() {
    let redis = Redis::start_kept();
    a_probe_opens_nothing(on_redis(gate(&Upstream::start(), &rules()), &redis, "a"));
}

/// What one person adds only asks more people: an approval by fewer than the rule on new destinations asks for makes none
/// known, whether it is asked for by a limit or by a rule on new destinations.
#[test]
fn an_added_hold_with_fewer_people_makes_no_destination_known() {
    let limit = "[[limit]]\nid = \"few\"\nops = [\"createSwap\"]\nwindow = \"rolling 1h\"\nper = [\"environment\"]\nmax = \"2 calls\"\n\
                 over = \"hold\"\napproval = \"one\"\nwhen = { amount = \"(0, 10] USD\" }\n";
    let rule = "[[rule]]\nid = \"smallest\"\neffect = \"hold\"\napproval = \"one\"\nwhen = { op = \"createSwap\", amount = \
                \"(0, 10] USD\", destination = { new = true, cooldown = \"24h\" } }\n";
    for (more, free) in [(limit, 2), (rule, 0)] {
        let upstream = Upstream::start();
        let gate = gate(&upstream, &format!("{}{more}", rules())).start();
        for at in 0..free {
            assert_eq!(told(&swap(&format!("free-{at}"), "1").send(gate.production())), "201 - executed");
        }
        let small = swap("small", "1");
        let hold = small.send(gate.production()).json()["hold"].clone();
        assert_eq!(say(&gate, "approve", &hold, "ops-1").status, 200);
        assert_eq!(told(&answered(&gate, &small)), "201 - executed again");
        let waits = swap("after", "90").send(gate.production());
        assert_eq!((waits.status, waits.outcome()), (202, "held".to_owned()), "{waits}");
    }
}

#[test]
fn caller_approver_and_auditor_see_what_a_rule_is_for() {
    let upstream = Upstream::start();
    let denied = "[[rule]]\nid = \"no-tron\"\ndescription = \"The custodian has no Tron.\"\neffect = \"deny\"\nwhen = { op = \
                  \"createSwap\", source.chain = \"TRON\" }\n";
    let gate = gate(&upstream, &format!("{}{denied}", rules())).start();
    let tron = String::from_utf8(swap("d-1", "5").body_bytes()).unwrap().replace("POLYGON", "TRON");
    let tron = tron.replace("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy");
    let answer = post("/v2/wallets/swaps").json(tron).send(gate.production());
    let reason = &answer.json()["error"]["details"]["rules"][0];
    assert_eq!(*reason, json!({ "rule": "no-tron", "text": "denied by rule: The custodian has no Tron." }), "{answer}");
    let hold = swap("d-2", "90").send(gate.production()).json()["hold"].clone();
    let id = text(&hold, "id").to_owned();
    let (_, out, _) = command(&gate, &["approvals", "show", &id], "ops-1");
    assert!(
        out.contains("why     needs 2 of `ops` and 1 of `finance`: A stolen token would pay somebody new. (newcomers)"),
        "{out}"
    );
    let shown = ask(&gate, "GET", &format!("holds/{id}"), &approver("ops-1"), None).json();
    assert!(text(&shown["reasons"][0], "text").contains("somebody new"), "{shown}");
    let described = |what: &str| {
        let written = entries(&gate.path("sluice-audit"));
        let entry = written.iter().find(|line| line["entry"]["what"] == what)?;
        Some(entry["entry"]["decision"]["descriptions"].clone())
    };
    wait_until("both entries", || described("refused").is_some() && described("held").is_some());
    assert_eq!(described("refused").unwrap(), json!({ "no-tron": "The custodian has no Tron." }));
    assert_eq!(described("held").unwrap(), json!({ "newcomers": "A stolen token would pay somebody new." }));
}

/// No request needs the rule for large payments, as larger ones are denied. But its people count for each destination.
#[test]
fn a_set_with_fewer_people_for_destinations_waits_for_two() {
    let new = |id: &str, approval: &str, amount: &str| {
        format!(
            "[[rule]]\nid = \"{id}\"\neffect = \"hold\"\napproval = \"{approval}\"\nwhen = {{ op = \"createSwap\", amount = \"{amount} \
             USD\", destination = {{ new = true, cooldown = \"24h\" }} }}\n"
        )
    };
    let less = format!("{RULES}{}", new("smaller", "one", "(0, 100]"));
    let more = format!("{less}{}", new("largest", "dual", "(1000, inf)"));
    let gate = gate(&Upstream::start(), &more).set("", "loosening", "two-people").start();
    let shown = || ask(&gate, "GET", "policies", &approver("ops-1"), None).json();
    let before = text(&shown(), "version").to_owned();
    std::fs::write(gate.path("policies/everything.toml"), &less).unwrap();
    wait_until("the set waits for people", || shown()["candidate"]["version"].is_string());
    assert_eq!(text(&shown(), "version"), before);
    let changes = shown()["candidate"]["difference"]["newcomers"].clone();
    assert!(text(&changes[0], "what").contains("`largest`"), "{changes}");
}
