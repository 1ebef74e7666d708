//! A real Redis Cluster of a test's own: three primaries, and three replicas.

use tempfile::TempDir;

use super::clock::wait_until;
use super::redis::{Redis, answer, free_port};
use super::split::{Network, source_of};
use super::tls::Authority;

/// The slots of the primaries. Production lies on the third shard; the sandbox and the rates lie on the first.
const RANGES: [[&str; 2]; 3] = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];
/// Whose replicas the last three are: whatever takes the place of the third primary has a replica left.
const REPLICATED: [usize; 3] = [2, 2, 0];

#[derive(Debug)]
pub struct Cluster {
    /// Three primaries, as it was started, and their replicas.
    pub all: Vec<Redis>,
    /// The port of each that others and gates are told, and that of its bus.
    told: Vec<[u16; 2]>,
    _folder: Option<TempDir>,
}

impl Cluster {
    /// Returns when every node holds the cluster for whole.
    pub fn start() -> Cluster {
        let nodes = (0..6).map(|_| {
            let bus = free_port();
            let node = start_node(bus, &[]);
            let told = [node.port(), bus];
            (node, told)
        });
        Cluster::of(nodes.collect(), REPLICATED, None)
    }

    /// One whose network can be split. The shard of production has all replicas, so that both sides can have some.
    pub fn start_in(network: &Network) -> Cluster {
        let nodes = (0..6).map(|at| {
            let (bus, source) = (free_port(), source_of(at).to_string());
            let told_bus = network.lead(at, bus);
            // The port of the node is not known before it starts.
            let mut node = start_node(bus, &["--bind-source-addr", &source, "--cluster-announce-ip", "127.0.0.1"]);
            let told = network.lead(at, node.port());
            let announced = [told.to_string(), told_bus.to_string()];
            for (setting, port) in ["cluster-announce-port", "cluster-announce-bus-port"].iter().zip(&announced) {
                assert_eq!(node.ask(&["CONFIG", "SET", setting, port]), ["OK"]);
            }
            node.arguments(&["--cluster-announce-port", &announced[0], "--cluster-announce-bus-port", &announced[1]]);
            (node, [told, told_bus])
        });
        Cluster::of(nodes.collect(), [2; 3], None)
    }

    /// One that gates reach over TLS; the tests ask its nodes in plain text.
    pub fn start_tls(authority: &Authority) -> Cluster {
        let (folder, certified) = (tempfile::tempdir().unwrap(), authority.certify(&["127.0.0.1"]));
        let file = |name: &str, pem: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, pem).unwrap();
            file.to_str().unwrap().to_owned()
        };
        let (ca, key) = (file("ca.pem", &authority.pem()), file("key.pem", &certified.key));
        let certificate = file("certificate.pem", &certified.certificate);
        let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
        let nodes = (0..6).map(|_| {
            let (bus, tls) = (free_port(), free_port());
            let port = tls.to_string();
            let tls_port = ["--tls-port", &port, "--tls-cluster", "yes", "--tls-replication", "yes"];
            let anybody = ["--tls-auth-clients", "no"];
            (start_node(bus, &[&tls_port[..], &files, &anybody].concat()), [tls, bus])
        });
        let nodes = nodes.collect();
        Cluster::of(nodes, REPLICATED, Some(folder))
    }

    fn of(nodes: Vec<(Redis, [u16; 2])>, replicated: [usize; 3], folder: Option<TempDir>) -> Cluster {
        let (all, told) = nodes.into_iter().unzip();
        let cluster = Cluster { all, told, _folder: folder };
        let first = &cluster.all[0];
        for (at, node) in cluster.all.iter().enumerate() {
            assert_eq!(node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]), ["OK"]);
        }
        for [port, bus] in &cluster.told[1..] {
            first.ask(&["CLUSTER", "MEET", "127.0.0.1", &port.to_string(), &bus.to_string()]);
        }
        wait_until("the nodes to meet", || cluster.all.iter().all(|node| cluster_info(node, "cluster_known_nodes:6")));
        for ([from, to], node) in RANGES.iter().zip(&cluster.all) {
            assert_eq!(node.ask(&["CLUSTER", "ADDSLOTSRANGE", from, to]), ["OK"]);
        }
        for (replica, of) in cluster.all[3..].iter().zip(replicated) {
            let id = id_of(&cluster.all[of]);
            wait_until("a replica", || replica.ask(&["CLUSTER", "REPLICATE", &id]) == ["OK"]);
        }
        cluster.is_whole();
        let linked = |at: usize| cluster.all[at].ask(&["INFO", "replication"]).concat().matches("state=online").count();
        let wanted = |at: usize| replicated.iter().filter(|of| **of == at).count();
        wait_until("the replicas", || (0..3).all(|at| linked(at) == wanted(at)));
        cluster
    }

    /// Waits until every node that answers holds it for whole.
    pub fn is_whole(&self) {
        let whole = |node: &Redis| answer(node.port(), &["PING"]).is_none() || cluster_info(node, "cluster_state:ok");
        wait_until("the cluster to be whole", || self.all.iter().all(whole));
    }

    /// As the setting has them.
    pub fn addresses(&self) -> String {
        let addresses: Vec<_> = self.told.iter().map(|[port, _]| format!("\"127.0.0.1:{port}\"")).collect();
        format!("[{}]", addresses.join(", "))
    }

    pub fn slot_of(&self, tag: &str) -> String {
        self.all[5].ask(&["CLUSTER", "KEYSLOT", &format!("{{{tag}}}")]).concat()
    }

    /// Which of them has a slot, as the second primary sees it.
    pub fn owner(&self, slot: &str) -> usize {
        self.owner_by(1, slot)
    }

    /// As this one sees it. While a slot changes its owner, it may see none.
    pub fn owner_by(&self, node: usize, slot: &str) -> usize {
        let mut owner = None;
        wait_until("an owner of the slot", || {
            owner = self.found_owner(node, slot);
            owner.is_some()
        });
        owner.unwrap()
    }

    fn found_owner(&self, node: usize, slot: &str) -> Option<usize> {
        let slot: u16 = slot.parse().unwrap();
        let told = self.all[node].ask(&["CLUSTER", "NODES"]).concat();
        let has = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse().is_ok_and(|first: u16| (first..=last.parse().unwrap_or(0)).contains(&slot))
        };
        let line = told.lines().find(|line| line.split(' ').skip(8).any(has))?;
        let place = line.split(' ').nth(1).unwrap().split('@').next().unwrap();
        let is_at = |port: u16| place.ends_with(&format!(":{port}"));
        self.all.iter().zip(&self.told).position(|(node, [told, _])| is_at(node.port()) || is_at(*told))
    }

    /// Moves a slot, `meanwhile` once some of its keys are there and some are here.
    pub fn reshard(&self, slot: &str, to: usize, mut meanwhile: impl FnMut()) {
        let (from, to) = (&self.all[self.owner(slot)], &self.all[to]);
        let (from_id, to_id) = (id_of(from), id_of(to));
        assert_eq!(to.ask(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &from_id]), ["OK"]);
        assert_eq!(from.ask(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &to_id]), ["OK"]);
        let port = to.port().to_string();
        let mut is_first = true;
        loop {
            let keys = from.ask(&["CLUSTER", "GETKEYSINSLOT", slot, "5"]);
            if keys.is_empty() {
                break;
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            assert_eq!(from.ask(&words), ["OK"]);
            if std::mem::take(&mut is_first) {
                meanwhile();
            }
        }
        for node in [to, from].into_iter().chain(&self.all[..3]) {
            assert_eq!(node.ask(&["CLUSTER", "SETSLOT", slot, "NODE", &to_id]), ["OK"]);
        }
    }
}

fn start_node(bus: u16, more: &[&str]) -> Redis {
    let bus = bus.to_string();
    let cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", &bus];
    let kept = ["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"];
    // The second primary has no replica, and gets none from the others.
    let stay = ["--cluster-allow-replica-migration", "no"];
    Redis::start_with(&[&cluster[..], &kept, &stay, more].concat())
}

fn id_of(node: &Redis) -> String {
    node.ask(&["CLUSTER", "MYID"]).concat()
}

fn cluster_info(node: &Redis, line: &str) -> bool {
    node.ask(&["CLUSTER", "INFO"]).concat().lines().any(|one| one.trim_end() == line)
}
