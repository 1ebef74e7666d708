use http::Method;
use serde_json::json;

use super::*;
use crate::base::ids::Environment;
use crate::catalog::{Catalog, SchemaFiles, examples};
use crate::stations::admit::{self, RequestHead};

fn catalog() -> Catalog {
    Catalog::build(&SchemaFiles::built_in(), &["createTosLink".into(), "getOrchestrationAddress".into()]).unwrap()
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", "Bearer a.b.c".parse().unwrap());
    headers.insert("content-type", "application/json".parse().unwrap());
    headers
}

fn checked(catalog: &Catalog, method: Method, target: &str, body: &[u8]) -> Result<Intent, CheckRefusal> {
    let mut headers = headers();
    if method == Method::GET {
        headers.remove("content-type");
    }
    let head = RequestHead { method: &method, target, headers: &headers };
    let found = admit::find(catalog, head).unwrap();
    check_head(&headers, 1 << 20)?;
    let token = admit::bearer(&headers).unwrap();
    let admitted =
        admit::admit(Environment::Production, found, head, token, &admit::VerifiedToken::of_anyone(), None).unwrap();
    check(admitted, &headers, body).map_err(|unfit| unfit.refusal)
}

fn swap(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut body = json!({
        "requestId": "swap-1",
        "source": {"userId": "7F9C24E8-3B12-4FEF-91E0-8F5D3D5C6A11", "chain": "POLYGON", "currency": "usdt", "amount": "10.50"},
        "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}
    });
    change(&mut body);
    json::to_bytes(&body)
}

fn post_swap(catalog: &Catalog, body: &[u8]) -> Result<Intent, CheckRefusal> {
    checked(catalog, Method::POST, "/v2/wallets/swaps", body)
}

fn violations(result: Result<Intent, CheckRefusal>) -> Vec<(String, String)> {
    match result {
        Err(CheckRefusal::Violations(found)) => found.into_iter().map(|v| (v.pointer, v.keyword)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_example_body_is_taken_or_refused() {
    let (catalog, files) = (catalog(), SchemaFiles::built_in());
    let mut tried = 0;
    for operation in catalog.operations().iter().filter(|o| o.body.is_some()) {
        let values: Vec<_> = operation.template.parameters().map(|n| (n.to_owned(), "p-1".to_owned())).collect();
        let path = operation.template.fill(&values);
        for example in examples(&files, operation).unwrap().into_iter().filter(|e| !e.answer) {
            let taken = checked(&catalog, operation.method.clone(), &path, &json::to_bytes(&example.value));
            assert_eq!(taken.is_ok(), example.good, "{}: {taken:?}", example.file);
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
}

#[test]
fn identifiers_are_normal_and_the_sent_bytes_as_written() {
    let catalog = catalog();
    let intent = post_swap(&catalog, &swap(|_| ())).unwrap();
    let movement = intent.movement().unwrap();
    assert_eq!(movement.source.user.as_deref(), Some("7f9c24e8-3b12-4fef-91e0-8f5d3d5c6a11"));
    assert_eq!(movement.source.amount.as_deref(), Some("10.50"));
    assert_eq!(movement.destination.wallet.as_deref(), Some("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"));
    assert_eq!(intent.named().unwrap().request_id.as_ref().unwrap().as_str(), "swap-1");
    let sent = std::str::from_utf8(intent.body().unwrap()).unwrap();
    assert!(sent.contains("7F9C24E8") && sent.contains("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"), "{sent}");
}

#[test]
fn the_fingerprint_knows_the_value_not_the_spacing() {
    let catalog = catalog();
    let print = |body: &[u8]| post_swap(&catalog, body).unwrap().fingerprint();
    let spaced = String::from_utf8(swap(|_| ())).unwrap().replace(':', " : ").replace(',', ",\n");
    let other_amount = swap(|b| b["source"]["amount"] = json!("10.5"));
    assert_eq!(print(&swap(|_| ())), print(spaced.as_bytes()));
    assert_ne!(print(&swap(|_| ())), print(&other_amount));
}

#[test]
fn a_wallet_that_its_chain_cannot_have_is_refused() {
    let catalog = catalog();
    let with = |wallet: &str| post_swap(&catalog, &swap(|b| b["destination"]["walletAddress"] = json!(wallet)));
    let place = || vec![("/destination/walletAddress".to_owned(), "format".to_owned())];
    assert_eq!(violations(with("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD")), place());
    assert_eq!(violations(with("So11111111111111111111111111111111111111112")), place());
    assert!(with("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed").is_ok());
    let without_chain = |wallet: &str| {
        post_swap(
            &catalog,
            &swap(|b| {
                b["destination"].as_object_mut().unwrap().remove("chain");
                b["destination"]["walletAddress"] = json!(wallet);
            }),
        )
    };
    assert_eq!(violations(without_chain("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD")), place());
    for unknown in [
        "0X5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
        "5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
        " 0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
        "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed\n",
        "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed\u{200B}",
        "\u{FEFF}0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
        "0x0000000000000000000000005aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
        "eip155:137:0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
        "vitalik.eth",
    ] {
        assert_eq!(violations(with(unknown)), place(), "{unknown:?} on its chain");
        assert_eq!(violations(without_chain(unknown)), place(), "{unknown:?} without a chain");
    }
    let intent = without_chain("0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED").unwrap();
    let normal = intent.movement().unwrap().destination.wallet.clone();
    assert_eq!(normal.as_deref(), Some("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"));
}

#[test]
fn unknown_fields_of_money_are_refused_and_named() {
    let catalog = catalog();
    let result = post_swap(&catalog, &swap(|b| b["source"]["amuont"] = json!("secret-value")));
    assert!(!format!("{result:?}").contains("secret-value"));
    assert_eq!(violations(result).first().map(|(p, _)| p.as_str()), Some("/source/amuont"));
}

#[test]
fn parameters_are_checked_where_they_are_documented() {
    let catalog = catalog();
    let get = |target: &str| checked(&catalog, Method::GET, target, b"");
    for good in [
        "/v2/offramps",
        "/v2/offramps?limit=1",
        "/v2/offramps?limit=100&createdBefore=2026-01-31",
        "/v2/offramps?createdBefore=2026-01-31T10:00:00.000Z",
        "/v2/offramps?notDocumented=x",
        "/v2/users?type=business&email=a%40b.example",
    ] {
        assert!(get(good).is_ok(), "{good}: {:?}", get(good));
    }
    for (bad, name) in [
        ("/v2/offramps?limit=0", "limit"),
        ("/v2/offramps?limit=101", "limit"),
        ("/v2/offramps?limit=1e1", "limit"),
        ("/v2/offramps?createdBefore=yesterday", "createdBefore"),
        ("/v2/offramps?limit=1&limit=2", "limit"),
        ("/v2/users?type=robot", "type"),
    ] {
        assert_eq!(violations(get(bad)).first().map(|(p, _)| p.as_str()), Some(name), "{bad}");
    }
    assert_eq!(
        violations(checked(&catalog, Method::POST, "/v2/wallets/swaps?x=1", &swap(|_| ()))),
        [("x".to_owned(), "additionalProperties".to_owned())]
    );
    let accept = |id: &str| checked(&catalog, Method::POST, &format!("/v2/wallets/{id}/offers/{id}/accept"), b"");
    assert!(accept("7F9C24E8-3B12-4FEF-91E0-8F5D3D5C6A11").is_ok());
    assert_eq!(violations(accept("not-a-uuid")).len(), 2);
}

#[test]
fn operations_without_a_body_take_none_or_an_empty_object() {
    let catalog = catalog();
    let cancel = |body: &[u8]| checked(&catalog, Method::POST, "/v2/wallets/swaps/s-1/cancel", body);
    for good in [&b""[..], b"{}", b" { } "] {
        let intent = cancel(good).unwrap();
        assert_eq!(intent.body(), None);
    }
    assert!(matches!(cancel(b"{\"a\":1}"), Err(CheckRefusal::Violations(_))));
    assert!(matches!(cancel(b"[]"), Err(CheckRefusal::Violations(_))));
    assert!(matches!(cancel(b"null"), Err(CheckRefusal::Violations(_))));
    assert!(matches!(cancel(b"{"), Err(CheckRefusal::Json(_))));
}

#[test]
fn only_plain_json_is_read() {
    let check_with = |name: &'static str, value: &str| {
        let mut headers = headers();
        headers.insert(name, value.parse().unwrap());
        check_head(&headers, 100)
    };
    for good in ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""] {
        assert_eq!(check_with("content-type", good), Ok(()), "{good}");
    }
    for bad in ["text/plain", "application/json; charset=latin1", "application/jsonx", "application/problem+json", ""] {
        assert!(matches!(check_with("content-type", bad), Err(CheckRefusal::MediaType(_))), "{bad}");
    }
    assert_eq!(check_with("content-encoding", "identity"), Ok(()));
    assert!(matches!(check_with("content-encoding", "gzip"), Err(CheckRefusal::MediaType(_))));
    assert_eq!(check_with("content-length", "101"), Err(CheckRefusal::TooLarge { limit_bytes: 100 }));
    assert_eq!(check_with("content-length", "100"), Ok(()));
}
