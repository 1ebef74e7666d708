//! Callers' certificates, in real handshakes: who gets in, who does not any more, and what tokens are bound to.

mod bound;
mod handshakes;
mod revoked;

use std::path::Path;

use reqwest::{Client, Version};
use tokio::runtime::Runtime;

use crate::support::clock::wait_until;
use crate::support::tls::{Authority, Certified, Leaf};
use crate::support::token::token;
use crate::support::{Gate, Setup, Upstream, canary};

const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];
/// What a caller hears whose certificate was good when it connected.
const NO_MORE: Result<u16, ()> = Ok(401);

/// Who stands on both sides: what the gate shows, and who certifies callers.
struct Parties {
    server: Authority,
    callers: Authority,
}

impl Parties {
    fn new() -> Parties {
        Parties { server: Authority::called("servers"), callers: Authority::called("callers") }
    }

    fn setup(&self, upstream: &Upstream) -> Setup {
        let own = self.server.certify(&["127.0.0.1"]);
        Setup::of(upstream)
            .file("cert.pem", &own.certificate)
            .file("key.pem", &own.key)
            .file("callers.pem", &self.callers.pem())
            .set("production", "tls_certificate", "cert.pem")
            .set_raw("production", "tls_key", r#"{ file = "key.pem" }"#)
            .set("production", "client_ca", "callers.pem")
    }

    /// With this file of revoked certificates.
    fn setup_with(&self, upstream: &Upstream, revoked: &str) -> Setup {
        self.setup(upstream).file("revoked.pem", revoked).set("production", "client_revoked", "revoked.pem")
    }

    fn good(&self) -> Certified {
        self.callers.issue(Leaf::new("payroll").serial(7))
    }

    fn connected(&self, gate: &Gate, own: Option<&Certified>, version: Version) -> Connected {
        let alpn: &[&[u8]] = if version == Version::HTTP_2 { &[b"h2"] } else { &[b"http/1.1"] };
        let builder = Client::builder().no_proxy().tls_backend_preconfigured(self.server.client_with(alpn, own));
        let builder = if version == Version::HTTP_2 { builder.http2_prior_knowledge() } else { builder.http1_only() };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = format!("https://{}/v2/users", gate.production());
        Connected { runtime, client: builder.build().unwrap(), url }
    }

    /// A read over a connection of its own.
    fn read(&self, gate: &Gate, own: Option<&Certified>, version: Version) -> Result<u16, ()> {
        self.connected(gate, own, version).read(token())
    }
}

/// A caller that keeps its connection.
struct Connected {
    runtime: Runtime,
    client: Client,
    url: String,
}

impl Connected {
    /// The status of a read, or nothing where there was no connection.
    fn read(&self, token: &str) -> Result<u16, ()> {
        canary::plant(token);
        self.runtime.block_on(async {
            let answer = self.client.get(&self.url).bearer_auth(token).send().await.map_err(drop)?;
            let status = answer.status().as_u16();
            // A connection is free for the next read only when the body has been read to its end.
            answer.bytes().await.map_err(drop)?;
            Ok(status)
        })
    }
}

fn refused(gate: &Gate, reason: &str) -> u64 {
    gate.metric(&format!("sluice_connections_refused_total{{listener=\"production\",reason={reason:?}}}"))
}

/// Replaces a file as a whole, as those do who keep such files.
fn replace(path: &Path, content: impl AsRef<[u8]>) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, content).unwrap();
    std::fs::rename(&beside, path).unwrap();
}
