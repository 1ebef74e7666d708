//! A range of an index, from either end.

use super::reader::ReplyReader;
use super::{RedisStore, ScriptReply, fault, root};
use crate::base::ids::Environment;
use crate::ledger::{Index, IndexPart, StoreFault, StoreTime};

impl RedisStore {
    pub(super) async fn part_of(
        &self,
        environment: Environment,
        index: Index,
        part: IndexPart,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        let IndexPart { backwards, behind, count } = part;
        let bound = behind.as_ref().map(|(at, _)| at.as_micros().to_string());
        let is_behind = |at: StoreTime, member: &String| match &behind {
            None => true,
            Some((last_at, last)) if backwards => (at, member) < (*last_at, last),
            Some((last_at, last)) => (at, member) > (*last_at, last),
        };
        let (mut found, mut passed) = (Vec::new(), 0_usize);
        while found.len() < count {
            let (from, to) = match backwards {
                true => (bound.as_deref().unwrap_or("+inf"), "-inf"),
                false => (bound.as_deref().unwrap_or("-inf"), "+inf"),
            };
            // Members that are due at the same moment as the last one may sort before it.
            let wanted = count.saturating_sub(found.len()).saturating_add(1);
            let mut command = ::redis::cmd("ZRANGE");
            command.arg(format!("{}:i:{}", root(environment), index.as_str())).arg(from).arg(to).arg("BYSCORE");
            if backwards {
                command.arg("REV");
            }
            command.arg("LIMIT").arg(passed).arg(wanted).arg("WITHSCORES");
            let told = self
                .shards
                .of(environment)
                .ask(async |mut connection, _| command.query_async(&mut connection).await)
                .await;
            let told = due_of(told.map_err(|unanswered| fault(unanswered, StoreFault::Away))?)?;
            let is_last = told.len() < wanted;
            passed = passed.saturating_add(told.len());
            found.extend(told.into_iter().filter(|(at, member)| is_behind(*at, member)));
            if is_last {
                break;
            }
        }
        found.truncate(count);
        Ok(found)
    }
}

/// Parses members and when they are due.
pub(super) fn due_of(told: ScriptReply) -> Result<Vec<(StoreTime, String)>, StoreFault> {
    let (mut told, mut due) = (ReplyReader::of(told), Vec::new());
    while !told.is_at_end() {
        let member = told.text()?;
        due.push((told.time()?, member));
    }
    Ok(due)
}
