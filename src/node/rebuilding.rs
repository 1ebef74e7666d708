//! Rebuilds a lost Redis from the journals of the nodes that came, and decides whether money may open by itself.
//!
//! Each node's journal is a part of one log, so the journal that reaches furthest holds what all others hold. Its node
//! writes what its replica has into the Redis, while all others wait. Money opens by itself only if nothing can be
//! missing; otherwise a person opens it.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use super::Node;
use super::journalling::follows;
use super::membership::Membership;
use super::node_facts::{NodeFacts, came_with};
use super::nodes_at_loss::{NodesAtLoss, Reasons, is_copy, is_journal_new};
use super::rebuilt_snapshot::{RebuildingJournal, SnapshotOccasion};
use crate::adapters::audit::{EntryRoom, entries_above, newest_entries};
use crate::adapters::random;
use crate::adapters::store::redis::{HeartbeatReply, Member, RebuildRight, RebuiltStore};
use crate::audit::{UnusedNumbers, unused_before};
use crate::base::ids::Environment;
use crate::ledger::{Content, NodeId, Number, Outstanding, Step, StoreFault};
use crate::ports::{AuditFault, Store as _};
use crate::stations::claim::{self, Forgotten, Freeze, MoneyAfterRebuild, OpenedBeginning};

/// How many numbers are left free behind a rebuild, at least.
const FREE_NUMBERS: u64 = 1_000_000;

/// The newest entries that a rebuilt store keeps for journals that lack them.
const KEPT_FOR_OTHERS: EntryRoom = EntryRoom { entries: 16_384, bytes: 64 << 20 };
/// The entries that a journal lends at a time.
const LENT: EntryRoom = EntryRoom { entries: 4_096, bytes: 16 << 20 };
/// How long a rebuild waits for gates whose journals it needs.
const WAITS_FOR_OTHERS: Duration = Duration::from_secs(6);
/// How long a rebuild may take until its commit. An entry of a later time would end what stands, for a gate that was away.
const LONGEST_REBUILD: Duration = Duration::from_hours(1);

impl Membership {
    /// Rebuilds the store if this node's journal reaches furthest.
    pub(super) async fn rebuild(
        &self,
        node: &Node,
        environment: Environment,
        heard: &HeartbeatReply,
    ) -> Result<(), StoreFault> {
        let gathered = NodesAtLoss::of(heard);
        if self.share(node, environment, &gathered).await? {
            return Ok(());
        }
        if gathered.leader().is_none_or(|leader| leader.node != node.id) {
            return Ok(());
        }
        let up_to = self.replica.last(environment)?;
        let journal = node.audit.highest(environment);
        if up_to != journal {
            let why = format!("the replica ends at {up_to}, and the journal at {journal}");
            return Err(StoreFault::Away(why));
        }
        let committed = self.replica.committed(environment)?;
        // The files are read before: the right lapses.
        let newest =
            move |folder: &Path, id: &NodeId| newest_entries(folder, id, (environment, up_to), KEPT_FOR_OTHERS);
        let tail = self.read_files(node, newest).await?;
        let Some(right) = self.store.may_rebuild(environment, &self.instance).await? else { return Ok(()) };
        let (orphans, reasons) = self.what_is_missing((environment, &node.id), &gathered, &committed, &right)?;
        if !orphans.nodes.is_empty() && heard.at.since(gathered.lost) < WAITS_FOR_OTHERS {
            // Money is closed all the same: with their journals, the store is rebuilt once and whole.
            return Ok(());
        }
        // The journal of a node that is not here may go on, or begin another rebuild behind the same number: how many
        // numbers stay free is random, so that no two rebuilds use the same ones.
        let free = FREE_NUMBERS.saturating_add(u64::from(random::number() >> 2));
        let above = right.above.believed_behind(up_to).max(up_to).as_u64().saturating_add(free);
        let money = self.money(environment, up_to, orphans, &reasons)?;
        let is_closed = matches!(money, MoneyAfterRebuild::Closed(_));
        let begin = self.replica.begin(environment)?;
        let unused = UnusedNumbers { behind: up_to.as_u64(), last: above, begins: begin.as_u64() };
        let mut commit = claim::rebuilt(environment, unused, money, &node.id);
        let opened = self.opened_beginning(environment)?;
        commit.steps.extend(opened.and_then(|opened| OpenedBeginning::narrowed(environment, begin, opened)));
        commit.steps.extend(self.journalled_correction(environment)?.map(|micros| Step::CorrectClock { micros }));
        let within = self.store.time_bounds(environment).map(|bounds| bounds.for_rebuild(LONGEST_REBUILD));
        let commit = self.seals.sealed_commit_within(commit, within)?;
        let mut known = committed;
        for member in &gathered.came {
            // What a node knows beyond the journals was never sent, or makes it an orphan that has been named.
            let number = known.entry(member.node.clone()).or_default();
            *number = member.own.max(*number);
        }
        let fresh = self.store.generation(environment).unwrap_or_else(|| random::nonce().0);
        let rebuilt = RebuiltStore { instance: &self.instance, fresh: &fresh, tail, committed: known, commit };
        self.store.refill(environment, &self.replica, &rebuilt).await?;
        let shown_behind = rebuilt.tail.first().map_or(up_to.as_u64(), |first| first.number.as_u64().saturating_sub(1));
        let shown_behind = Number::new(shown_behind);
        let has_left_out = self.replica.left_out(environment)?.is_some();
        let journal = RebuildingJournal { node: &node.id, begin, up_to, shown_behind, has_left_out };
        let differs = |member: &Member| self.differs_behind(environment, member).is_some();
        let lacking = journal.not_followed_by(gathered.came.iter().copied(), differs);
        self.show_snapshot(node, environment, SnapshotOccasion::Rebuild, lacking).await?;
        self.store.complete_rebuild(environment, &self.replica, rebuilt).await?;
        self.replica.is_whole_at(environment, Number::new(above));
        self.replica.nothing_is_left_out(environment)?;
        node.metrics.store_rebuilt(environment.as_str());
        if is_closed {
            tracing::error!(
                %environment,
                up_to = up_to.as_u64(),
                why = reasons.join("; "),
                "the store had lost its memory and was rebuilt from this journal; money is closed until a person opens it: find \
                 out what is missing (`sluice doctor`, upstream's records), then `sluice unfreeze --restored \
                 --environment ENVIRONMENT --reason TEXT`"
            );
        } else {
            tracing::warn!(
                %environment,
                up_to = up_to.as_u64(),
                "the store had lost its memory and was rebuilt from this journal; nothing is missing"
            );
        }
        node.news.notify_one();
        Ok(())
    }

    /// Brings the entries of the journal that reaches furthest to the one that begins earliest, so that one journal has
    /// both. Returns whether that is under way.
    async fn share(
        &self,
        node: &Node,
        environment: Environment,
        gathered: &NodesAtLoss<'_>,
    ) -> Result<bool, StoreFault> {
        let Some((base, furthest)) = gathered.base_and_furthest() else { return Ok(false) };
        if furthest.node == node.id {
            let behind = base.kept;
            let begins = NodeFacts::read(&base.told).map_or(0, |facts| facts.journal_begins.as_u64());
            let next = move |folder: &Path, id: &NodeId| next_entries(folder, id, environment, behind, begins);
            let entries = self.read_files(node, next).await?;
            self.store.lend(environment, gathered.lost, behind, &entries).await?;
        }
        if base.node == node.id {
            loop {
                let highest = node.audit.highest(environment);
                let lent = self.store.borrow(environment, gathered.lost, highest).await?;
                // What this journal cannot take is told once the store is rebuilt from it.
                let Some(entries) = lent else { return Ok(false) };
                let Some(last) = entries.last() else { break };
                let up_to = last.number.as_u64();
                tracing::info!(%environment, up_to, "this journal takes entries that another gate has");
                // Nothing else is taken meanwhile: what was committed before the loss is given up.
                node.audit.resume(environment);
                let taken = node.audit.append(entries).await;
                node.audit.suspend(environment).await.map_err(|fault| StoreFault::Away(fault.to_string()))?;
                match taken {
                    Ok(_on_disk) => {}
                    Err(AuditFault::Contradicted { number, why }) => {
                        node.contradicted(environment, Some(number), &why);
                        // Money that is rebuilt from this journal stays closed.
                        self.store.distrust(environment).await?;
                    }
                    Err(fault) => return Err(StoreFault::Away(fault.to_string())),
                }
            }
        }
        Ok(true)
    }

    /// Returns the nodes with commits that no journal at hand has, and why money cannot open by itself, where this node leads.
    fn what_is_missing(
        &self,
        (environment, leads): (Environment, &NodeId),
        gathered: &NodesAtLoss<'_>,
        committed: &BTreeMap<NodeId, Number>,
        right: &RebuildRight,
    ) -> Result<(Forgotten, Reasons), StoreFault> {
        let mut reasons = Reasons::new();
        let ran = gathered.ran_at_loss();
        if !ran && self.all_nodes.is_empty() {
            let why = "no gate that ran when the store lost its memory was there, and `store.all_nodes` does not list all gates";
            reasons.push(why.to_owned());
        }
        if right.is_distrusted {
            reasons.push(
                "the store contradicted the journals: somebody changed it, or it forgot single records".to_owned(),
            );
        }
        for member in gathered.came.iter().filter(|member| is_journal_new(member)) {
            let heard = right.heard_of.get(&member.node);
            let known = committed.get(&member.node);
            // It handed over all that its former journal had, and has not been heard since.
            let has_retired =
                heard.is_some_and(|heard| heard.is_retired && known.copied().unwrap_or_default() >= heard.highest);
            let is_known = !has_retired && (known.is_some() || heard.is_some());
            if is_known || !ran {
                let why = "a new journal: what its former one holds is not known";
                reasons.push(came_with(&member.node, why));
            }
        }
        for member in gathered.came.iter().filter(|member| !ran && is_copy(member)) {
            let why = "a copy of its audit folder: whether it is the newest is not known";
            reasons.push(came_with(&member.node, why));
        }
        for member in gathered.came.iter().filter(|member| is_copy(member)) {
            let known = committed.get(&member.node).copied().unwrap_or_default().as_u64();
            let heard = right.heard_of.get(&member.node).map(|heard| heard.highest.as_u64());
            let before = gathered.facts().filter_map(|facts| facts.closed_by?.made.get(&member.node).copied()).max();
            // Of an original, the disk would never have had the rest, so that it was never sent.
            if heard.max(before).is_some_and(|made| known < made) {
                let why = "a copy of its audit folder that lacks commits which others know of";
                reasons.push(came_with(&member.node, why));
            }
        }
        let mut orphans = Forgotten::default();
        reasons.iter().for_each(|reason| orphans.must_be_opened(reason));
        let begin = self.replica.begin(environment)?;
        let is_opened = self.opened_beginning(environment)?.is_some_and(|(_, opened)| begin <= opened);
        orphans.begins_behind = if is_opened { 0 } else { begin.as_u64() };
        if orphans.begins_behind > 0 {
            reasons.push(format!("the journal begins behind number {begin}: what was before is not known"));
        }
        for closed in gathered.facts().filter_map(|facts| facts.closed_by).filter(|closed| closed.by_person) {
            let before = "money was closed before, and no person has opened it";
            orphans.by_person = true;
            for reason in closed.reasons.iter().map(String::as_str).chain([before]) {
                if !reasons.iter().any(|known| known == reason) {
                    reasons.push(reason.to_owned());
                }
            }
            closed.reasons.iter().for_each(|reason| orphans.must_be_opened(reason));
        }
        let came = |node: &NodeId| gathered.came.iter().any(|member| member.node == *node);
        let mut made = BTreeMap::new();
        let mut waits_for = |node: &NodeId, why: &str, reasons: &mut Reasons| {
            let known = committed.get(node).copied().unwrap_or_default();
            if orphans.nodes.insert(node.clone(), known.as_u64()).is_none() {
                reasons.push(format!("`{node}` {why}, and did not come yet"));
            }
        };
        for member in &gathered.missing {
            waits_for(&member.node, "ran when the store lost its memory", &mut reasons);
        }
        // What closed money before this loss has not been answered yet.
        for closed in gathered.facts().filter_map(|facts| facts.closed_by) {
            for node in closed.nodes.keys().filter(|node| !came(node)) {
                waits_for(node, "was awaited before", &mut reasons);
            }
        }
        for (node, heard) in right.heard_of.iter().filter(|(node, _)| !came(node)) {
            // One that made no commit has none that could be missing.
            if committed.get(node).copied().unwrap_or_default() < heard.highest {
                waits_for(node, "made commits that no journal at hand has", &mut reasons);
                made.insert(node.clone(), heard.highest.as_u64());
            }
        }
        for node in self.all_nodes.iter().filter(|node| !ran && !came(node)) {
            waits_for(node, "is listed in `store.all_nodes`", &mut reasons);
        }
        gathered.add_lacking(committed, begin, (&mut orphans, &mut reasons));
        let others = gathered.came.iter().filter(|member| member.node != *leads);
        for (member, behind) in others.filter_map(|one| Some((one, self.differs_behind(environment, one)?))) {
            let why = format!(
                "the journal of `{}` has other entries {} than that of `{leads}`",
                member.node,
                behind.behind_in_words()
            );
            orphans.must_be_opened(&why);
            reasons.push(why);
            let from = orphans.nodes.entry(member.node.clone()).or_insert(behind.as_u64());
            *from = behind.as_u64().min(*from);
            orphans.differ.insert(member.node.clone());
            orphans.here.extend(gathered.came.iter().map(|member| member.node.clone()));
        }
        gathered.add_untold(committed, leads, (&mut orphans, &mut reasons));
        orphans.knows_of(&made);
        gathered.facts().filter_map(|facts| facts.closed_by).for_each(|closed| orphans.knows_of(&closed.made));
        Ok((orphans, reasons))
    }

    /// Returns the beginning for which a person opened money, as the replica has it, and the commit that said so.
    fn opened_beginning(&self, environment: Environment) -> Result<Option<(Number, Number)>, StoreFault> {
        let key = OpenedBeginning::key(environment);
        let Some(record) = self.replica.record(&key)? else { return Ok(None) };
        let Content::Whole(sealed) = record.content else { return Ok(None) };
        Ok(Some((record.version, OpenedBeginning::read(&self.seals.open(&key, sealed)?))))
    }

    fn money(
        &self,
        environment: Environment,
        up_to: Number,
        waits_for: Forgotten,
        reasons: &Reasons,
    ) -> Result<MoneyAfterRebuild, StoreFault> {
        let before = self.replica.record(&Freeze::Restored.key(environment))?.map(|record| record.version);
        let closed = before.zip(self.closed_by(environment)?);
        Ok(MoneyAfterRebuild::decided(closed, waits_for, up_to, reasons))
    }

    /// Reads entries of this journal.
    pub(super) async fn read_files(
        &self,
        node: &Node,
        read: impl FnOnce(&Path, &NodeId) -> io::Result<Vec<Outstanding>> + Send + 'static,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        let (folder, id) = (self.audit_folder.clone(), node.id.clone());
        let reading = tokio::task::spawn_blocking(move || read(&folder, &id));
        let entries = reading.await.map_err(|error| StoreFault::Away(error.to_string()))?;
        entries.map_err(|error| StoreFault::Away(format!("the journal cannot be read: {error}")))
    }
}

/// Returns entries behind a number, in order, each of which follows the one before it, for a journal that begins behind
/// `begins`: what comes behind a rebuild from a later beginning knows less than it.
fn next_entries(
    folder: &Path,
    node: &NodeId,
    environment: Environment,
    behind: Number,
    begins: u64,
) -> io::Result<Vec<Outstanding>> {
    let (mut entries, mut last, mut room) = (Vec::new(), behind, LENT);
    entries_above(folder, node, environment, behind.as_u64(), &mut |entry| {
        let knows_less = unused_before(&entry.entry).is_some_and(|unused| begins < unused.begins);
        if knows_less || !follows(&entry, last) || !room.takes(&entry) {
            return ControlFlow::Break(());
        }
        last = entry.number;
        entries.push(entry);
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}
