//! What the gate is measured against: a proxy of pingora that knows where upstream is, and no more.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::Result;
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::HttpPeer;

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
    let conf = Arc::new(ServerConf { threads: 1, max_retries: 2, ..ServerConf::default() });
    // The engine cannot tell which free port it took, so one is looked for first.
    let address = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?.local_addr()?;
    std::thread::spawn(move || {
        while TcpStream::connect(address).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        child::announce(address);
    });
    let mut server =
        Server::new_with_opt_and_conf(None, ServerConf { threads: 1, max_retries: 2, ..ServerConf::default() });
    let mut service = http_proxy_service(&conf, Bare { upstream });
    service.add_tcp(&address.to_string());
    server.add_service(service);
    server.run_forever()
}
