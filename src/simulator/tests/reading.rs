//! Lists, pages, filters, users, and what the journal keeps.

use super::*;

fn request_ids(page: &Value) -> Vec<String> {
    let ids = page["records"].as_array().unwrap().iter().map(|r| details(r, "requestId").as_str().unwrap().to_owned());
    ids.collect()
}

#[test]
fn pages_follow_one_another_without_gap_or_repetition() {
    let bench = Bench::new();
    for number in 0..7 {
        bench.post("/v2/offramps", &offramp(&format!("o-{number}"), "5"));
    }
    let (mut seen, mut target) = (Vec::new(), "/v2/offramps".to_owned());
    let mut sizes = Vec::new();
    loop {
        let (status, page) = bench.get(&target);
        assert_eq!(status, 200);
        let ids = request_ids(&page);
        sizes.push(ids.len());
        assert_eq!(page["count"], ids.len());
        if ids.is_empty() {
            break;
        }
        seen.extend(ids);
        target = format!("/v2/offramps?createdBefore={}", page["nextCursor"].as_str().unwrap());
    }
    assert_eq!(sizes, [10, 10, 10, 2, 0]);
    assert_eq!(&seen[..2], ["o-6", "o-5"]);
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count);
}

#[test]
fn lists_are_filtered_by_user_and_time() {
    let bench = Bench::new();
    let user = bench.seeded("/users/1/id");
    let (_, page) = bench.get(&format!("/v2/offramps?limit=100&userId={user}"));
    assert_eq!(page["count"], 5);
    assert_eq!(bench.get("/v2/offramps?limit=100&createdAfter=2025-02-28").1["count"], 6);
    assert_eq!(bench.get("/v2/offramps?limit=100&createdBefore=2025-02-28").1["count"], 19);
    assert_eq!(bench.get("/v2/offramps?limit=100").1["count"], 25);
    assert_eq!(bench.get("/v2/wallets/transfers?limit=0").1["count"], 0);
    assert_eq!(bench.get("/v2/wallets/transfers/batches").1["count"], 10);
}

#[test]
fn orchestration_addresses_are_paged_with_a_cursor() {
    let bench = Bench::new();
    let list = format!("/v2/users/{}/orchestration-addresses", bench.seeded("/users/0/id"));
    let (_, page) = bench.get(&format!("{list}?limit=1"));
    assert_eq!(page["records"][0]["status"], "ACTIVE");
    let (_, page) = bench.get(&format!("{list}?cursor={}", page["nextCursor"].as_str().unwrap()));
    assert_eq!((&page["count"], &page["records"][0]["status"]), (&json!(1), &json!("DEACTIVATED")));
    assert_eq!(bench.get(&format!("{list}?limit=201")).0, 400);
}

#[test]
fn users_are_found_and_changed() {
    let bench = Bench::new();
    let user = bench.seeded("/users/0/id");
    let count = |query: &str| bench.get(&format!("/v2/users?{query}")).1["count"].clone();
    assert_eq!(count("type=business"), 2);
    assert_eq!(count("firstName=AD"), 1);
    assert_eq!(count("businessName=example&email=meadow"), 1);
    assert_eq!(count(&format!("search={}", user.to_uppercase())), 1);
    assert_eq!(count("search=finch"), 1);
    let update = json!({"type": "individual", "firstName": "Adele", "email": "adele@example.com"});
    let (status, record) = bench.post(&format!("/v2/users/{user}"), &update);
    assert_eq!((status, &record["name"]), (200, &json!("Adele Example")));
    assert_eq!(count("email=adele"), 1);
    assert_eq!(bench.post(&format!("/v2/users/{user}"), &json!({"type": "business"})).0, 400);
}

#[test]
fn kyc_differs_by_rail() {
    let bench = Bench::new();
    let (first, second) = (bench.seeded("/users/0/id"), bench.seeded("/users/1/id"));
    let status =
        |user: &str, query: &str| bench.get(&format!("/v2/users/{user}/kyc/status{query}")).1["status"].clone();
    assert_eq!(status(&first, ""), "ACTIVE");
    assert_eq!(status(&first, "?rail=AFRICA_NIGERIA"), "INCOMPLETE");
    assert_eq!(status(&second, "?rail=AFRICA_NIGERIA"), "INACTIVE");
    assert_eq!(bench.get(&format!("/v2/users/{first}/kyc/status?rail=MARS")).0, 400);
}

#[test]
fn accounts_belong_to_their_users() {
    let bench = Bench::new();
    let (first, second) = (bench.seeded("/users/0/id"), bench.seeded("/users/1/id"));
    let (nested, flat) = (bench.seeded("/accounts/0/id"), bench.seeded("/accounts/1/id"));
    assert_eq!(bench.get(&format!("/v2/users/{first}/accounts/{nested}")).1["id"], nested);
    assert_eq!(bench.get(&format!("/v2/users/{first}/accounts/{flat}")).1["accountId"], flat);
    assert_eq!(bench.get(&format!("/v2/users/{second}/accounts/{nested}")).0, 404);
}

#[test]
fn the_journal_keeps_what_arrived() {
    let bench = Bench::new();
    let body = " {\"requestId\": \"s-1\"} ".to_owned();
    bench.send("POST", "/v2/wallets/swaps?x=%41", Some(body.clone()), Some("Bearer abc"));
    bench.get("/v2/nowhere");
    let journal = bench.simulator.journal();
    let first = &journal.received[0];
    assert_eq!((first.target.as_str(), first.body.as_slice()), ("/v2/wallets/swaps?x=%41", body.as_bytes()));
    assert_eq!((first.authorization.as_deref(), first.status, first.effect), (Some("Bearer abc"), Some(400), false));
    assert_eq!((journal.strays, journal.calls_of("createSwap"), journal.total_effects()), (1, 1, 0));
    bench.simulator.clear_journal();
    assert!(bench.simulator.journal().received.is_empty());
}

#[test]
fn the_same_seed_gives_the_same_identifiers() {
    let other = Bench::with(Settings { seed: 2, ..Settings::default() });
    assert_eq!(Bench::new().simulator.data(), Bench::new().simulator.data());
    assert_ne!(Bench::new().seeded("/users/0/id"), other.seeded("/users/0/id"));
}
