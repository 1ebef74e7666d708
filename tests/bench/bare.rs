//! What the gate is measured against: a proxy of pingora that knows where upstream is, and no more.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use pingora::Result;
use pingora::proxy::{ProxyHttp, Session, http_proxy};
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::HttpPeer;
use sluice::gateway::listen::{Bound, Listening};
use tokio::sync::watch;

use crate::child;

#[derive(Debug)]
struct Bare {
    upstream: SocketAddr,
}

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.upstream, false, String::new())))
    }
}

pub(crate) fn serve(upstream: SocketAddr) -> anyhow::Result<()> {
    let conf = || ServerConf { threads: 1, max_retries: 2, ..ServerConf::default() };
    let bound = Bound::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    child::announce(bound.address());
    let mut server = Server::new_with_opt_and_conf(None, conf());
    let proxy = http_proxy(&Arc::new(conf()), Bare { upstream });
    let (_stop, stopping) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    server.add_service(Listening::new("bare", proxy, bound, None, stopping, runtime.handle().clone()));
    server.run_forever()
}
