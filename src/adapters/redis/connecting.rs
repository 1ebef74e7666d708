//! Opens connections, and finds out which Redis they lead to.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use ::redis::aio::MultiplexedConnection;
use ::redis::{RedisError, RedisResult};
use tokio::time::timeout;

use super::fitness::{self, UnfitRedis};
use super::host::{NamedPrimary, without_deadlines};
use super::standing::{ConnectionStanding, NotConnected};
use super::{CONNECT, Redis, permissions, refusal};
use crate::adapters::clock::SystemClock;
use crate::ports::Clock as _;

impl Redis {
    /// Returns a connection that answered in time: a Redis that is always slow is never used.
    pub(super) async fn connect(&self) -> Result<Arc<ConnectionStanding>, NotConnected> {
        let asked = SystemClock.elapsed();
        let named = self.place.named().await.map_err(NotConnected::unnamed)?;
        let failed = |error: RedisError| NotConnected::of(&error);
        let client = self.place.client(named.as_ref().map(|named| &named.address)).map_err(failed)?;
        let connecting = async {
            let mut shared = client.get_multiplexed_async_connection_with_config(&without_deadlines()).await?;
            let answered = timeout(self.deadline, async {
                let fit = self.try_out(&mut shared, named.as_ref()).await?;
                Ok(match fit {
                    Ok(run) => Ok((run, refusal::check(&mut shared, &self.unused_key).await?)),
                    Err(unfit) => Err(unfit),
                })
            });
            let answered = answered.await;
            Ok::<_, RedisError>(answered.map(|answer| (shared, answer)))
        };
        let silent = || NotConnected::Error("it does not answer in time".to_owned());
        let tried = timeout(CONNECT, connecting).await.map_err(|_| silent())?.map_err(failed)?;
        let (shared, fit) = tried.map_err(|_| silent())?;
        let (run, refusal) = fit.map_err(failed)?.map_err(|unfit| match unfit {
            // The Redis is no longer the primary that others name, or not yet.
            UnfitRedis::Replica if self.place.may_change() => {
                NotConnected::Error("the Redis that was named as the primary is a replica".to_owned())
            }
            unfit => NotConnected::Unfit(unfit),
        })?;
        self.obstacle.store(None);
        let (environments, primary) = (self.keys.environments(), named.as_ref().map(NamedPrimary::name));
        self.fence().begins_anew(environments, primary.as_deref());
        if let Some(primary) = primary.filter(|_| named.as_ref().is_some_and(|named| named.by_majority)) {
            self.fence().named(environments, &primary, asked);
        }
        self.writes(refusal);
        Ok(Arc::new(ConnectionStanding {
            client,
            named,
            shared,
            run,
            is_late: AtomicBool::new(false),
            alone: Mutex::default(),
        }))
    }

    /// Opens a dedicated connection; `None` if it leads to another run.
    pub(super) async fn connect_alone(
        &self,
        standing: &ConnectionStanding,
    ) -> RedisResult<Option<MultiplexedConnection>> {
        let mut connection = standing.client.get_multiplexed_async_connection_with_config(&without_deadlines()).await?;
        let is_the_same =
            self.run_of(&mut connection, standing.named.as_ref()).await?.is_ok_and(|found| found == standing.run);
        Ok(is_the_same.then_some(connection))
    }

    /// Returns the run of a connection, if the Redis and its user meet all demands.
    async fn try_out(
        &self,
        connection: &mut MultiplexedConnection,
        named: Option<&NamedPrimary>,
    ) -> RedisResult<Result<String, UnfitRedis>> {
        match (self.run_of(connection, named).await?, self.demands) {
            (Ok(run), Some(demands)) => Ok(permissions::check(connection, demands).await?.map(|()| run)),
            (run, _) => Ok(run),
        }
    }

    /// Returns the run of a connection; without demands the run is not read.
    pub(super) async fn run_of(
        &self,
        connection: &mut MultiplexedConnection,
        named: Option<&NamedPrimary>,
    ) -> RedisResult<Result<String, UnfitRedis>> {
        if let Err(error) = refusal::ping(connection).await {
            return Ok(permissions::denied(error)?.map(|()| String::new()));
        }
        if self.demands.is_none() && !self.place.may_change() {
            return Ok(Ok(String::new()));
        }
        match ::redis::cmd("INFO").query_async::<String>(connection).await {
            Ok(info) => {
                // Rates alone need no run that is certain.
                let is_trusted = self.demands.is_none_or(|demands| demands.trusted.run);
                let named = named.map(NamedPrimary::name);
                let run = || fitness::run(&info, is_trusted, named.as_deref());
                Ok(fitness::check(&info, self.demands).and_then(|()| run()))
            }
            Err(error) if error.code() == Some("NOPERM") => Ok(Err(UnfitRedis::Silent)),
            Err(error) => Err(error),
        }
    }
}
