//! People agree that a looser set of policies takes force, and every node hears of it.

use super::Books;
use super::books::TRIES;
use crate::commit::StoreFault;
use crate::stations::agree::{self, AgreedAlready, PEOPLE, Succession};
use crate::stations::claim::Owner;

/// Why a word is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTaken {
    AgreedAlready,
    Store(StoreFault),
}

impl From<StoreFault> for NotTaken {
    fn from(fault: StoreFault) -> NotTaken {
        NotTaken::Store(fault)
    }
}

/// Those who agreed.
pub async fn agreed(books: &Books, succession: Succession<'_>) -> Result<Vec<Owner>, StoreFault> {
    let (record, _) = books.store.read(&succession.key()).await?;
    Ok(agree::agreed(record.as_ref()))
}

/// Takes a person's word; says who agreed, with them.
pub async fn agree(
    books: &Books,
    succession: Succession<'_>,
    person: &Owner,
    reason: &str,
) -> Result<Vec<Owner>, NotTaken> {
    for _ in 0..TRIES {
        let (record, _) = books.store.read(&succession.key()).await?;
        let people = agree::agreed(record.as_ref());
        if people.len() >= PEOPLE {
            return Ok(people);
        }
        let agreed = agree::agree(succession, record.as_ref(), person, reason, &books.node);
        let (commit, people) = agreed.map_err(|AgreedAlready| NotTaken::AgreedAlready)?;
        if books.commit(commit).await?.is_some() {
            return Ok(people);
        }
    }
    Err(NotTaken::Store(StoreFault::Away("the record changed again and again".to_owned())))
}
