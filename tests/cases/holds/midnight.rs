//! A hold that waits while the day of a limit ends.

use super::*;
use crate::support::false_clock::FalseClock;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// A zone in which it is eight in the evening, and the seconds until its midnight.
fn evening() -> (String, i64) {
    let now = claims()["iat"].as_i64().unwrap();
    let offset = (20 - now % DAY / HOUR + 11).rem_euclid(24) - 11;
    let zone = match offset {
        0 => "Etc/GMT".to_owned(),
        // Their names count westward.
        _ => format!("Etc/GMT{:+}", -offset),
    };
    (zone, DAY - (now + offset * HOUR).rem_euclid(DAY))
}

/// A token of a time that is so many seconds ahead.
fn token_at(ahead: i64, person: Option<&str>) -> String {
    let mut said = claims();
    for name in ["iat", "exp"] {
        said[name] = json!(said[name].as_i64().unwrap() + ahead);
    }
    if let Some(subject) = person {
        (said["iss"], said["sub"], said["roles"]) = (json!(PEOPLE), json!(subject), json!(["approver"]));
    }
    signed(&said)
}

/// A vote that was prepared for one day and comes on the next one exceeds the limit of neither.
#[test]
fn what_was_approved_for_one_day_exceeds_no_limit_of_the_next() {
    let (zone, until_midnight) = evening();
    let limit = format!(
        "[[limit]]\nid = \"day\"\nops = [\"createSwap\"]\nwindow = \"calendar day {zone}\"\nper = [\"environment\"]\n\
         max = \"700 USD\"\nover = \"hold\"\napproval = \"dual\"\n"
    );
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let variables = clock.variables().into_iter().chain([clock.pauses()]);
    let setup = gate(&upstream, &format!("{RULES}{limit}"));
    let gate = variables.fold(setup, |setup, (name, value)| setup.variable(&name, &value)).start();
    let day_of = |hold: &Value| {
        let reasons = hold["reasons"].as_array().unwrap();
        let told = reasons.iter().find(|reason| reason["rule"] == "day").map(|reason| text(reason, "text").to_owned());
        told.unwrap_or_default()
    };
    let (first, second) = (held(&gate, "l-1"), held(&gate, "l-2"));
    all_agree(&gate, &first);
    assert_eq!(answered(&gate, &swap("l-1", "500")).status, 201);
    all_agree(&gate, &second);
    wait_until("it to wait for people again", || state(&gate, &second) == "pending");
    let in_the_evening = shown(&gate, &second);
    let told = day_of(&in_the_evening);
    assert!(told.starts_with("over the limit of 700 USD on ") && told.contains("up to 1200 USD"), "{told}");
    for who in ["ops-1", "finance-1"] {
        assert_eq!(say(&gate, "approve", &in_the_evening, who).status, 200);
    }

    let ahead = until_midnight + 5;
    clock.pause(ahead.unsigned_abs());
    let pay = |call: Call| {
        let token = format!("Bearer {}", token_at(ahead, None));
        call.without("Authorization").header("Authorization", token).send(gate.production())
    };
    let say_late = |hold: &Value, who: &str| {
        let path = format!("holds/{}/approve", text(hold, "id"));
        ask(&gate, "POST", &path, &token_at(ahead, Some(who)), Some(named(hold, "approve")))
    };
    let now = || {
        let path = format!("holds/{}", text(&second, "id"));
        ask(&gate, "GET", &path, &token_at(ahead, Some("ops-1")), None).json()
    };
    // The next day has 300 of 700 USD.
    for at in 0..3 {
        wait_until("a small payment", || pay(swap(&format!("small-{at}"), "100")).status == 201);
    }
    let before = sent(&upstream);
    // Its voter was shown the evening.
    assert_eq!(say_late(&in_the_evening, "ops-2").status, 200);
    wait_until("it to wait for people again", || day_of(&now()) != told);
    let today = now();
    assert_eq!((text(&today, "state"), &today["votes"], sent(&upstream)), ("pending", &json!([]), before), "{today}");
    assert!(day_of(&today).contains("up to 1200 USD"), "{today}");
    let late = say_late(&in_the_evening, "ops-1");
    assert_eq!((late.status, late.code().as_str()), (409, "OTHER_CAUSES"), "{late}");
    for who in ["ops-1", "finance-1", "ops-2"] {
        assert_eq!(say_late(&today, who).status, 200);
    }
    wait_until("it to be sent", || pay(swap("l-2", "500")).status == 201);
    assert_eq!(sent(&upstream), before + 1);
}
