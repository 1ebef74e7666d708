//! Where a webhook may not lead.

use super::{delivered, hooked};
use crate::cases::holds::held;
use crate::support::Upstream;
use crate::support::clock::wait_until;
use crate::support::tls::Authority;

/// Whatever the name, its addresses are looked at, and nothing is sent there.
#[test]
fn this_machine_is_not_reached_unless_it_is_allowed() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let certified = authority.certify(&["localhost", "127.0.0.1"]);
    let hooks = Upstream::start_tls(certified.server());
    let port = hooks.address().port();
    for host in ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "2130706433", "0x7f.1"] {
        let setup = hooked(&upstream, &hooks).file("ca.pem", &authority.pem());
        let setup = setup.set("webhook.approvals", "url", &format!("https://{host}:{port}/in/x"));
        let setup =
            setup.set("webhook.approvals", "ca", "ca.pem").set_raw("webhook.approvals", "allow_private", "false");
        let gate = setup.start();
        held(&gate, "p-1");
        wait_until("it to be refused", || delivered(&gate, "approvals", "forbidden") > 0);
        assert_eq!(hooks.connections(), 0, "{host}");
    }
    let setup = hooked(&upstream, &hooks).file("ca.pem", &authority.pem()).set("webhook.approvals", "ca", "ca.pem");
    let gate = setup.set("webhook.approvals", "url", &format!("https://localhost:{port}/in/x")).start();
    held(&gate, "p-2");
    wait_until("it to be taken where it is allowed", || delivered(&gate, "approvals", "delivered") == 1);
}

#[test]
fn who_is_not_who_it_should_be_is_told_nothing() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    for names in [["elsewhere.test"], ["localhost"]] {
        let hooks = Upstream::start_tls(authority.certify(&names).server());
        let trusted = if names == ["localhost"] { Authority::called("another").pem() } else { authority.pem() };
        let setup = hooked(&upstream, &hooks).file("ca.pem", &trusted).set("webhook.approvals", "ca", "ca.pem");
        let url = format!("https://localhost:{}/in/x", hooks.address().port());
        let gate = setup.set("webhook.approvals", "url", &url).start();
        held(&gate, "t-1");
        wait_until("it to be refused", || delivered(&gate, "approvals", "untrusted") > 0);
        assert_eq!(hooks.seen().len(), 0);
    }
}
