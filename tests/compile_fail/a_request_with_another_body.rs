//! Nobody changes the bytes of a request between its right and its send.

use sluice::stations::forward::Outgoing;

fn change_body(mut outgoing: Outgoing) -> Outgoing {
    outgoing.body = Some(b"{}".as_slice().into());
    outgoing
}

fn main() {}
