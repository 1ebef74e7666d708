//! Looks names of hosts up, on threads of its own.
//!
//! The system's resolver blocks for as long as it likes, and nothing can end it: with a name server that drops packets, for
//! half a minute. So each lookup has its own thread, at most a few at a time, and a name that is being looked up is not
//! asked for twice. Whoever asks waits for a bounded time. The threads on which the store reads never wait for a name.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ::redis::RedisFuture;
use ::redis::io::AsyncDNSResolver;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

/// How long whoever asks waits: two name servers that do not answer, asked twice each.
const DEADLINE: Duration = Duration::from_secs(20);
/// The most lookups of a purpose under way.
const MAX_LOOKUPS: usize = 8;
/// The stack of a thread that looks a name up.
const STACK_BYTES: usize = 512 * 1024;

static FOR_MONEY: LazyLock<Lookups> = LazyLock::new(|| Lookups::new(MAX_LOOKUPS, by_system));
static FOR_NOTICES: LazyLock<Lookups> = LazyLock::new(|| Lookups::new(MAX_LOOKUPS, by_system));

/// The purpose of a lookup: those of one purpose never wait for those of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupPurpose {
    /// Upstream, a Redis, issuers and witnesses.
    Money,
    /// Webhooks and the collector of traces.
    Notices,
}

impl LookupPurpose {
    /// Returns the addresses of a host; those of an address are itself.
    pub async fn lookup(self, host: &str) -> io::Result<Vec<IpAddr>> {
        let lookups = match self {
            LookupPurpose::Money => &*FOR_MONEY,
            LookupPurpose::Notices => &*FOR_NOTICES,
        };
        lookups.lookup_within(host, DEADLINE).await
    }

    pub async fn lookup_at(self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let found = self.lookup(host).await?;
        Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }
}

impl Resolve for LookupPurpose {
    fn resolve(&self, name: Name) -> Resolving {
        let purpose = *self;
        Box::pin(async move {
            let found = purpose.lookup_at(name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

impl AsyncDNSResolver for LookupPurpose {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        host: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async move {
            let found = self.lookup_at(host, port).await?;
            Ok(Box::new(found.into_iter()) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        })
    }
}

/// What a lookup found; `None` while it is under way.
type Found = Option<Arc<io::Result<Vec<IpAddr>>>>;

/// Blocks until it knows the addresses of a host.
type LookUp = fn(&str) -> io::Result<Vec<IpAddr>>;

type UnderWay = Arc<Mutex<HashMap<String, watch::Receiver<Found>>>>;

/// The lookups under way.
#[derive(Debug)]
struct Lookups {
    under_way: UnderWay,
    /// One for each thread; it comes free when the system's resolver returns.
    places: Arc<Semaphore>,
    look_up: LookUp,
}

impl Lookups {
    fn new(at_once: usize, look_up: LookUp) -> Lookups {
        Lookups { under_way: UnderWay::default(), places: Arc::new(Semaphore::new(at_once)), look_up }
    }

    async fn lookup_within(&self, host: &str, time: Duration) -> io::Result<Vec<IpAddr>> {
        if let Ok(ip) = host.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(vec![ip]);
        }
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the name could not be looked up in time");
        timeout(time, self.lookup(host)).await.map_err(late)?
    }

    async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut answer = self.join_or_begin(host).await?;
        let gone = |_| io::Error::other("the lookup of the name failed");
        let found = answer.wait_for(Option::is_some).await.map_err(gone)?.clone();
        match found.as_deref() {
            Some(Ok(found)) => Ok(found.clone()),
            Some(Err(error)) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Err(io::Error::other("the lookup of the name has no answer")),
        }
    }

    async fn join_or_begin(&self, host: &str) -> io::Result<watch::Receiver<Found>> {
        let mut place = None;
        loop {
            {
                let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(answer) = under_way.get(host) {
                    return Ok(answer.clone());
                }
                place = place.or_else(|| Arc::clone(&self.places).try_acquire_owned().ok());
                if let Some(place) = place {
                    let answer = self.begin(host, place)?;
                    under_way.insert(host.to_owned(), answer.clone());
                    return Ok(answer);
                }
            }
            place = Some(Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?);
        }
    }

    fn begin(&self, host: &str, place: OwnedSemaphorePermit) -> io::Result<watch::Receiver<Found>> {
        let (told, answer) = watch::channel(None);
        let (under_way, look_up, host) = (Arc::clone(&self.under_way), self.look_up, host.to_owned());
        let run = move || {
            let found = look_up(&host);
            // Whoever asks from now on asks anew.
            under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&host);
            drop(place);
            told.send_replace(Some(Arc::new(found)));
        };
        thread::Builder::new().name("names".to_owned()).stack_size(STACK_BYTES).spawn(run)?;
        Ok(answer)
    }
}

fn by_system(host: &str) -> io::Result<Vec<IpAddr>> {
    Ok((host, 0).to_socket_addrs()?.map(|found| found.ip()).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(20);

    /// Hangs for each name that begins with `slow`, and fails for `unknown`.
    fn fake(host: &str) -> io::Result<Vec<IpAddr>> {
        if host.starts_with("slow") {
            thread::sleep(Duration::from_secs(4));
        }
        if host == "unknown" { Err(io::Error::other("no such name")) } else { Ok(vec![IpAddr::from([192, 0, 2, 1])]) }
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap()
    }

    #[test]
    fn names_that_hang_take_no_thread_on_which_files_are_read() {
        runtime().block_on(async {
            let lookups = Lookups::new(2, fake);
            for host in ["slow-1", "slow-2", "slow-3", "slow-1"] {
                let late = lookups.lookup_within(host, SHORT).await.unwrap_err();
                assert_eq!(late.kind(), io::ErrorKind::TimedOut, "{host}");
            }
            assert_eq!(lookups.under_way.lock().unwrap().len(), 2);
            timeout(Duration::from_secs(2), tokio::task::spawn_blocking(|| ())).await.unwrap().unwrap();
            // Those that waited for a place get one when a lookup ends.
            assert!(lookups.lookup_within("quick", LONG).await.is_ok());
        });
    }

    #[test]
    fn a_name_that_is_being_looked_up_is_asked_once() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        fn counted(host: &str) -> io::Result<Vec<IpAddr>> {
            ASKED.fetch_add(1, Ordering::Relaxed);
            fake(host)
        }
        runtime().block_on(async {
            let lookups = Lookups::new(2, counted);
            let one = lookups.lookup_within("slow", LONG);
            let (one, other) = tokio::join!(one, lookups.lookup_within("slow", LONG));
            assert_eq!((one.unwrap(), ASKED.load(Ordering::Relaxed)), (other.unwrap(), 1));
            assert!(lookups.under_way.lock().unwrap().is_empty());
            assert_eq!(lookups.places.available_permits(), 2);
        });
    }

    #[test]
    fn addresses_are_not_looked_up_and_errors_are_told() {
        runtime().block_on(async {
            let lookups = Lookups::new(0, fake);
            for address in ["127.0.0.1", "::1", "[::1]"] {
                assert_eq!(lookups.lookup_within(address, SHORT).await.unwrap().len(), 1);
            }
            let lookups = Lookups::new(1, fake);
            let told = lookups.lookup_within("unknown", LONG).await.unwrap_err();
            assert_eq!(told.to_string(), "no such name");
            assert!(lookups.lookup_within("known", LONG).await.is_ok());
        });
    }
}
