//! A real Redis Cluster of a test's own: three primaries, and three replicas.

use super::clock::wait_until;
use super::redis::{Redis, answer, free_port};

/// The slots of the primaries. Production lies on the third shard; the sandbox and the rates lie on the first.
const RANGES: [[&str; 2]; 3] = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];
/// Whose replicas the last three are: whatever takes the place of the third primary has a replica left.
const REPLICATED: [usize; 3] = [2, 2, 0];

#[derive(Debug)]
pub struct Cluster {
    /// Three primaries, as it was started, and their replicas.
    pub all: Vec<Redis>,
}

impl Cluster {
    /// Returns when every node holds the cluster for whole.
    pub fn start() -> Cluster {
        let cluster = Cluster { all: (0..6).map(|_| start_node()).collect() };
        let first = &cluster.all[0];
        for (at, node) in cluster.all.iter().enumerate() {
            assert_eq!(node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]), ["OK"]);
        }
        for node in &cluster.all[1..] {
            let bus = bus_of(node);
            first.ask(&["CLUSTER", "MEET", "127.0.0.1", &node.port().to_string(), &bus]);
        }
        wait_until("the nodes to meet", || cluster.all.iter().all(|node| cluster_info(node, "cluster_known_nodes:6")));
        for ([from, to], node) in RANGES.iter().zip(&cluster.all) {
            assert_eq!(node.ask(&["CLUSTER", "ADDSLOTSRANGE", from, to]), ["OK"]);
        }
        for (replica, of) in cluster.all[3..].iter().zip(REPLICATED) {
            let id = id_of(&cluster.all[of]);
            wait_until("a replica", || replica.ask(&["CLUSTER", "REPLICATE", &id]) == ["OK"]);
        }
        cluster.is_whole();
        let linked = |at: usize| cluster.all[at].ask(&["INFO", "replication"]).concat().matches("state=online").count();
        wait_until("the replicas", || linked(2) == 2 && linked(0) == 1);
        cluster
    }

    /// Waits until every node that answers holds it for whole.
    pub fn is_whole(&self) {
        let whole = |node: &Redis| answer(node.port(), &["PING"]).is_none() || cluster_info(node, "cluster_state:ok");
        wait_until("the cluster to be whole", || self.all.iter().all(whole));
    }

    /// As the setting has them.
    pub fn addresses(&self) -> String {
        let addresses: Vec<_> = self.all.iter().map(|one| format!("\"127.0.0.1:{}\"", one.port())).collect();
        format!("[{}]", addresses.join(", "))
    }

    pub fn slot_of(&self, tag: &str) -> String {
        self.all[5].ask(&["CLUSTER", "KEYSLOT", &format!("{{{tag}}}")]).concat()
    }

    /// Which of them has a slot, as the second primary sees it.
    pub fn owner(&self, slot: &str) -> usize {
        let slot: u16 = slot.parse().unwrap();
        let told = self.all[1].ask(&["CLUSTER", "NODES"]).concat();
        let has = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse().is_ok_and(|first: u16| (first..=last.parse().unwrap_or(0)).contains(&slot))
        };
        let line = told.lines().find(|line| line.split(' ').skip(8).any(has)).expect("an owner of the slot");
        let place = line.split(' ').nth(1).unwrap().split('@').next().unwrap();
        self.all.iter().position(|node| place.ends_with(&format!(":{}", node.port()))).unwrap()
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

fn start_node() -> Redis {
    let bus = free_port().to_string();
    let cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", &bus];
    let kept = ["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"];
    // The second primary has no replica, and gets none from the others.
    let stay = ["--cluster-allow-replica-migration", "no"];
    Redis::start_with(&[&cluster[..], &kept, &stay].concat())
}

fn bus_of(node: &Redis) -> String {
    node.ask(&["CONFIG", "GET", "cluster-port"])[1].clone()
}

fn id_of(node: &Redis) -> String {
    node.ask(&["CLUSTER", "MYID"]).concat()
}

fn cluster_info(node: &Redis, line: &str) -> bool {
    node.ask(&["CLUSTER", "INFO"]).concat().lines().any(|one| one.trim_end() == line)
}
