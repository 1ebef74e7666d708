//! A Redis Cluster: which primary has the slot of a hash tag.
//!
//! All keys of an environment lie in one slot, so one connection to one primary serves it. All known nodes are asked at
//! once how they see the cluster (`CLUSTER NODES`). The primary of the slot with the latest epoch counts, because a node
//! that was cut off still names the former one. The primaries that have slots name it as Sentinels would: each of them
//! once, if it holds the primary for well.
//!
//! No redirect is followed. While a slot moves, a key that is at neither place cannot be told from one that never was:
//! the script refuses every call until the move is over, and the connection is made anew where the slot is then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::redis::{Client, RedisConnectionInfo, RedisResult};
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::faults::refuses_login;
use super::host::{Address, Host, HostAccess, NamedPrimary, info};
use crate::config::ClusterConfig;

/// The deadline of a node, connecting included.
const NODE_ANSWERS: Duration = Duration::from_millis(500);
const SLOTS: u16 = 16_384;
/// How many nodes are remembered besides those of the configuration.
const MAX_NODES: usize = 1_000;

/// The nodes of a cluster, and the slot that matters.
pub(super) struct Cluster {
    access: HostAccess,
    login: RedisConnectionInfo,
    seeds: Vec<Address>,
    slot: u16,
    nodes: Mutex<BTreeMap<Address, Arc<Host>>>,
}

/// Why the primary of the slot is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClusterError {
    #[error("no node of `redis.cluster` answers `CLUSTER NODES`")]
    Silent,
    #[error("no node of `redis.cluster` knows who has the slot")]
    Unassigned,
    /// A node refuses the user or the password, and no other one answers.
    #[error("the nodes of `redis.cluster` refuse the user or the password")]
    Refused,
}

/// How one node sees the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ClusterView {
    /// The id of the node that answered, if it is a primary.
    primary: Option<String>,
    /// The ids of the primaries that have slots.
    voters: BTreeSet<String>,
    owner: Option<SlotOwner>,
    /// All nodes that it knows.
    nodes: BTreeSet<Address>,
}

/// The primary that has the slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SlotOwner {
    id: String,
    address: Address,
    /// Raised with every failover, and when a slot moves.
    epoch: u64,
    is_well: bool,
}

impl Cluster {
    pub fn of(config: &ClusterConfig, access: HostAccess, tag: &str) -> Cluster {
        let (seeds, login) = (config.addresses.clone(), info(&config.login));
        Cluster { access, login, seeds, slot: slot_of(tag), nodes: Mutex::default() }
    }

    pub fn client(&self, address: &Address) -> RedisResult<Client> {
        self.access.client(address, self.login.clone())
    }

    /// Returns the primary of the slot.
    pub async fn ask(&self) -> Result<NamedPrimary, ClusterError> {
        let mut asked = JoinSet::new();
        for (address, node) in self.known() {
            let slot = self.slot;
            asked.spawn(async move { timeout(NODE_ANSWERS, view_of(&node, &address, slot)).await });
        }
        let (mut views, mut is_refused) = (Vec::new(), false);
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(Ok(view))) => views.push(view),
                Ok(Ok(Err(error))) => is_refused |= refuses_login(&error),
                _ => {}
            }
        }
        self.remember(&views);
        if views.is_empty() && is_refused {
            return Err(ClusterError::Refused);
        }
        named(&views)
    }

    /// Returns the nodes to ask.
    fn known(&self) -> Vec<(Address, Arc<Host>)> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        for address in &self.seeds {
            if !nodes.contains_key(address)
                && let Ok(client) = self.client(address)
            {
                nodes.insert(address.clone(), Arc::new(Host::of(client)));
            }
        }
        nodes.iter().map(|(address, node)| (address.clone(), node.clone())).collect()
    }

    /// Keeps the nodes that anybody named, so that the seeds may go.
    fn remember(&self, views: &[ClusterView]) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let named: BTreeSet<&Address> = views.iter().flat_map(|view| &view.nodes).collect();
        if !named.is_empty() {
            nodes.retain(|address, _| named.contains(address) || self.seeds.contains(address));
        }
        for address in named.into_iter().take(MAX_NODES) {
            if !nodes.contains_key(address)
                && let Ok(client) = self.client(address)
            {
                nodes.insert(address.clone(), Arc::new(Host::of(client)));
            }
        }
    }
}

async fn view_of(node: &Host, address: &Address, slot: u16) -> RedisResult<ClusterView> {
    let mut connection = node.take().await?;
    let told: RedisResult<String> = ::redis::cmd("CLUSTER").arg("NODES").query_async(&mut connection).await;
    let told = told?;
    node.put_back(connection).await;
    Ok(ClusterView::read(&told, address, slot))
}

/// Returns the primary that the latest view names, and whether a majority of the primaries with slots name it.
fn named(views: &[ClusterView]) -> Result<NamedPrimary, ClusterError> {
    let owned = views.iter().filter_map(|view| Some((view, view.owner.as_ref()?)));
    // Of equal views, the same one counts each time: they may name another address of the same node.
    let latest = owned.max_by(|(_, one), (_, other)| (one.epoch, &one.address).cmp(&(other.epoch, &other.address)));
    let nobody = if views.is_empty() { ClusterError::Silent } else { ClusterError::Unassigned };
    let (view, owner) = latest.ok_or(nobody)?;
    let is_for_it = |one: &&ClusterView| one.owner.as_ref().is_some_and(|other| other.id == owner.id && other.is_well);
    let names: BTreeSet<&String> = views.iter().filter(is_for_it).filter_map(|one| one.primary.as_ref()).collect();
    // A node that answers at two addresses has one voice.
    let count = names.into_iter().filter(|id| view.voters.contains(*id)).count();
    let by_majority = count > view.voters.len() / 2;
    Ok(NamedPrimary { id: Some(owner.id.clone()), address: owner.address.clone(), by_majority })
}

impl ClusterView {
    /// Reads the answer of `CLUSTER NODES`: a line for each node. Lines that cannot be read name nobody.
    fn read(told: &str, asked: &Address, slot: u16) -> ClusterView {
        let mut view = ClusterView::default();
        for line in told.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [id, place, flags, _, _, _, epoch, _, slots @ ..] = words.as_slice() else { continue };
            let has = |flag: &str| flags.split(',').any(|one| one == flag);
            let Some(address) = address_of(place, asked).filter(|_| !has("noaddr") && !has("handshake")) else {
                continue;
            };
            let (is_primary, is_well) = (has("master"), !has("fail") && !has("fail?"));
            if is_primary && has("myself") {
                view.primary = Some((*id).to_owned());
            }
            let ranges: Vec<(u16, u16)> = slots.iter().filter_map(|range| slots_of(range)).collect();
            if is_primary && !ranges.is_empty() {
                view.voters.insert((*id).to_owned());
            }
            if let (true, Ok(epoch)) = (is_primary, epoch.parse())
                && ranges.iter().any(|(first, last)| (first..=last).contains(&&slot))
            {
                view.owner = Some(SlotOwner { id: (*id).to_owned(), address: address.clone(), epoch, is_well });
            }
            view.nodes.insert(address);
        }
        view
    }
}

/// Reads `ip:port@bus,host`: a node that has a host name is reached by it. One that does not know its own address yet was
/// asked at one.
fn address_of(place: &str, asked: &Address) -> Option<Address> {
    let mut parts = place.split(',');
    let (ip, port) = parts.next()?.split('@').next()?.rsplit_once(':')?;
    let host = parts.next().filter(|host| !host.is_empty() && *host != "?" && !host.contains('='));
    let host = match (host, ip) {
        (Some(host), _) => host,
        (None, "") => return Some(asked.clone()),
        (None, ip) => ip,
    };
    Some((host.to_owned(), port.parse().ok().filter(|port| *port != 0)?))
}

/// Reads `5461` or `0-5460`; a slot that is moving, `[93->-…]`, is none of them.
fn slots_of(range: &str) -> Option<(u16, u16)> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Returns the slot of all keys with this hash tag: CRC16 (XMODEM) of the tag.
fn slot_of(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(
            crc ^ (u16::from(byte) << 8),
            |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            },
        )
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Address {
        ("seed".to_owned(), 7_000)
    }

    /// The view of node `me` among three primaries, of which `owner` has the slot 100 since this epoch.
    fn view(me: &str, owner: &str, epoch: u64, flags: &str) -> ClusterView {
        let lines = ["a", "b", "c", "d"].map(|id| {
            let myself = if id == me { "myself," } else { "" };
            let (epoch, flags) = if id == owner { (epoch, flags) } else { (1, "") };
            let slots = match id {
                _ if id == owner => " 0-5460 [93->-b]",
                "b" => " 5461-10922",
                "c" => " 10923-16383",
                _ => "",
            };
            let role = if slots.is_empty() { "slave" } else { "master" };
            format!("{id} 10.0.0.{}:6379@16379 {myself}{role}{flags} - 0 0 {epoch} connected{slots}", id.len())
        });
        ClusterView::read(&lines.join("\n"), &asked(), 100)
    }

    #[test]
    fn slots_are_those_of_redis() {
        // As `CLUSTER KEYSLOT` tells.
        assert_eq!((slot_of("123456789"), slot_of(""), slot_of("foo")), (12_739, 0, 12_182));
    }

    #[test]
    fn a_line_tells_a_node_and_its_slots() {
        let told = "a :7000@17000 myself,master - 0 0 3 connected 5 7-9\nb 10.0.0.2:0@1,redis-2 master,noaddr - 0 0 1 disconnected\n\
                    c 10.0.0.3:7002@17002,redis-3 slave a 0 0 3 connected\nodd";
        let view = ClusterView::read(told, &asked(), 8);
        assert_eq!((view.primary.as_deref(), view.voters.len()), (Some("a"), 1));
        let owner = SlotOwner { id: "a".to_owned(), address: asked(), epoch: 3, is_well: true };
        assert_eq!(view.owner, Some(owner));
        assert_eq!(view.nodes, [asked(), ("redis-3".to_owned(), 7_002)].into());
        assert_eq!(ClusterView::read(told, &asked(), 6).owner, None);
    }

    #[test]
    fn the_latest_view_counts_and_primaries_alone_have_a_voice() {
        let of = |views: &[ClusterView]| named(views).map(|named| (named.id.unwrap_or_default(), named.by_majority));
        let is = |id: &str, by_majority| Ok((id.to_owned(), by_majority));
        assert_eq!(of(&[]), Err(ClusterError::Silent));
        assert_eq!(of(&[ClusterView::default()]), Err(ClusterError::Unassigned));
        assert_eq!(of(&[view("a", "a", 1, ""), view("b", "a", 1, "")]), is("a", true));
        // One voice, asked at two addresses; that of a replica is none.
        assert_eq!(of(&[view("a", "a", 1, ""), view("a", "a", 1, "")]), is("a", false));
        assert_eq!(of(&[view("a", "a", 1, ""), view("d", "a", 1, "")]), is("a", false));
        // Whoever holds it for failed does not name it.
        assert_eq!(
            of(&[view("a", "a", 1, ""), view("b", "a", 1, ",fail"), view("c", "a", 1, ",fail?")]),
            is("a", false)
        );
        // A former primary that was cut off names itself.
        let after = [view("a", "a", 1, ""), view("b", "d", 2, ""), view("c", "d", 2, "")];
        assert_eq!(of(&after), is("d", true));
        assert_eq!(of(&[view("a", "a", 1, ""), view("b", "d", 2, "")]), is("d", false));
    }
}
