//! What is asked and answered, made of the examples of the contract.

use crate::token::bearer;
use anyhow::Context as _;
use serde_json::Value;

const OFFRAMPS: &str = include_str!("../../schemas/examples/listOfframps/answer-good-every-status.json");
const SWAP_ASKED: &str = include_str!("../../schemas/examples/createSwap/good-checksummed-address.json");
const SWAP_ANSWERED: &str = include_str!("../../schemas/examples/createSwap/answer-good-completed.json");
/// Where records bear the requestId of their call; every swap gets the same answer, so it bears none.
const ANSWERED_ID: [&str; 2] = ["/transferDetails", "requestId"];
/// The requestId in [`SWAP_ASKED`], up to the digits that are counted up: every swap is a new one.
const REQUEST_ID_START: &str = "05ffb4e0-8e3a-4fb8-9738-";
const REQUEST_ID_END: &str = "b8781c18eb4a";
/// How many records the list has, so that it is about 1.5 KB long.
const RECORDS: usize = 7;

/// One request, and its answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) name: &'static str,
    /// The request before and after the digits that are counted up, where there are any.
    before: Vec<u8>,
    after: Option<Vec<u8>>,
    pub(crate) answer: Vec<u8>,
}

impl Exchange {
    pub(crate) fn all() -> anyhow::Result<[Exchange; 2]> {
        Ok([Exchange::list_offramps()?, Exchange::create_swap()?])
    }

    /// A read: about 1.5 KB come back.
    pub(crate) fn list_offramps() -> anyhow::Result<Exchange> {
        let mut page: Value = serde_json::from_str(OFFRAMPS)?;
        page.get_mut("records").and_then(Value::as_array_mut).context("the list has no records")?.truncate(RECORDS);
        let target = "/v2/offramps?userId=1cfd565f-8b56-4372-8926-d070a874f430&limit=7";
        let head = head("GET", target);
        Ok(Exchange {
            name: "GET listOfframps",
            before: format!("{head}\r\n").into_bytes(),
            after: None,
            answer: page.to_string().into_bytes(),
        })
    }

    /// A write: about 400 bytes go, about 1 KB comes back.
    pub(crate) fn create_swap() -> anyhow::Result<Exchange> {
        let (before, after) = SWAP_ASKED
            .split_once(REQUEST_ID_END)
            .filter(|(before, _)| before.ends_with(REQUEST_ID_START))
            .context("the swap has another requestId")?;
        let head = head("POST", "/v2/wallets/swaps");
        let framing = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", SWAP_ASKED.len());
        let mut answer: Value = serde_json::from_str(SWAP_ANSWERED)?;
        let [place, name] = ANSWERED_ID;
        let details = answer.pointer_mut(place).and_then(Value::as_object_mut).context("the swap has no details")?;
        details.remove(name);
        Ok(Exchange {
            name: "POST createSwap",
            before: format!("{head}{framing}\r\n{before}").into_bytes(),
            after: Some(after.as_bytes().to_vec()),
            answer: answer.to_string().into_bytes(),
        })
    }

    /// The bytes of the request with this number.
    pub(crate) fn request(&self, number: u64) -> Vec<u8> {
        let mut request = self.before.clone();
        if let Some(after) = &self.after {
            request.extend_from_slice(format!("{number:012x}").as_bytes());
            request.extend_from_slice(after);
        }
        request
    }
}

/// The body of a swap, as it is sent.
pub(crate) fn swap() -> &'static str {
    SWAP_ASKED
}

/// A head such as SDKs send, with a bearer token as long as they are.
fn head(method: &str, target: &str) -> String {
    let bearer = bearer();
    format!(
        "{method} {target} HTTP/1.1\r\nHost: gate.internal\r\nUser-Agent: treasury/1.4\r\nAccept: application/json\r\n\
         Authorization: {bearer}\r\n"
    )
}
