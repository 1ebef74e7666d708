//! Sessions whose records somebody takes out of the store while they are ended, and puts back afterwards.

use serde_json::json;

use super::sessions::{page, send, signed_in};
use super::{PEOPLE, act, console, operator, token_of};
use crate::cases::nodes;
use crate::support::gate::sluice;
use crate::support::{Call, Gate, Redis, Upstream};

const RECORDS: &str = "sluice:{production}:r:session:open/*";
const LISTS: &str = "sluice:{production}:r:session:of/*";

fn gates(upstream: &Upstream, redis: &Redis) -> [Gate; 2] {
    ["left", "right"].map(|node| {
        let setup = console(nodes::setup(upstream, &redis.url(), node));
        setup.set("store", "seal_key", &"5e".repeat(32)).start().ready()
    })
}

/// Takes the records of these names away; what it returns puts them back.
fn take_away<'r>(redis: &'r Redis, names: &str) -> impl FnOnce() + 'r {
    let keys = redis.ask(&["KEYS", names]);
    assert!(!keys.is_empty(), "{names}");
    for key in &keys {
        redis.ask(&["RENAME", key, &format!("away:{key}")]);
    }
    move || {
        for key in &keys {
            redis.ask(&["RENAME", &format!("away:{key}"), key]);
        }
    }
}

fn stands(gates: &[Gate; 2], cookie: &str) -> [bool; 2] {
    [0, 1].map(|nth| send(&gates[nth], &page("GET", "session", cookie)).status == 200)
}

fn end_of(person: &str) -> Call {
    act("POST", "sessions/end", &operator("olga")).json(json!({"person": person, "reason": "left"}).to_string())
}

#[test]
fn sessions_that_were_taken_away_while_they_were_ended_stay_ended() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis);
    for names in [RECORDS, LISTS, "sluice:{production}:r:session:*"] {
        let cookie = signed_in(&gates[0], &token_of(PEOPLE, "mallory", &["operator"]));
        let other = signed_in(&gates[0], &token_of(PEOPLE, "vera", &["operator"]));
        assert_eq!((stands(&gates, &cookie), stands(&gates, &other)), ([true; 2], [true; 2]), "{names}");
        let put_back = take_away(&redis, names);
        assert_eq!(send(&gates[0], &end_of("mallory")).status, 200, "{names}");
        put_back();
        assert_eq!((stands(&gates, &cookie), stands(&gates, &other)), ([false; 2], [true; 2]), "{names}");
        // Who signs in afterwards is in, until they are ended again.
        let again = signed_in(&gates[1], &token_of(PEOPLE, "mallory", &["operator"]));
        assert_eq!((stands(&gates, &again), stands(&gates, &cookie)), ([true; 2], [false; 2]), "{names}");
        assert_eq!(send(&gates[1], &end_of("mallory")).status, 200, "{names}");
        assert_eq!(stands(&gates, &again), [false; 2], "{names}");
        redis.ask(&[
            "EVAL",
            "for _, key in ipairs(redis.call('KEYS', 'away:*')) do redis.call('DEL', key) end return 1",
            "0",
        ]);
    }
}

#[test]
fn who_signs_out_is_out_although_their_session_was_taken_away() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis);
    let cookie = signed_in(&gates[0], &operator("ann"));
    let put_back = take_away(&redis, RECORDS);
    assert_eq!(send(&gates[0], &page("DELETE", "session", &cookie)).status, 200);
    put_back();
    assert_eq!(stands(&gates, &cookie), [false; 2]);
    // Whoever invents sessions fills no journal.
    let invented = |nth: usize| format!("sluice-session={nth:042}A");
    let answers = (0..100).map(|nth| send(&gates[0], &page("DELETE", "session", &invented(nth))).status);
    assert!(answers.into_iter().any(|status| status == 429));
}

/// That the store shows none proves nothing.
#[test]
fn the_command_does_not_say_that_there_was_no_session() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis);
    let console = format!("http://{}", gates[0].console().unwrap());
    let output = sluice(&["sessions", "end", "mallory", "--reason", "left", "--console", &console])
        .env("SLUICE_TOKEN", operator("olga"))
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told, "Ended every session of mallory that began before now. The store showed none.\n");
}
