//! `sluice demo`: simulator and gate on loopback, with something to try.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::Args;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::token::{Signer, Wanted, token};
use super::{Ending, policies, print, random_secret};
use crate::adapters::clock::SystemClock;
use crate::adapters::policies::PolicyFolder;
use crate::base::finding::Finding;
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::catalog::{Catalog, SchemaFiles};
use crate::config::{self, Config, World};
use crate::console::Console;
use crate::gateway::process::{Addresses, Given, Process};
use crate::gateway::{Read, ReadAgain};
use crate::ports::Clock as _;
use crate::simulator::{Settings, Simulator};
use crate::telemetry;

/// Try the gate: simulator and gate on loopback, nothing to install
///
/// Prints ready-made calls and what each will show. Ctrl-C ends it; nothing is left behind.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Port of the production gate; sandbox, probes and console take the next three. 0 takes any free ones
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Keep the store in this Redis, as many gates do: `redis://127.0.0.1:6379/1`. It stays there when the demo has ended
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
}

/// What the demo's tokens say in `iss`.
const ISSUER: &str = "sluice-demo";
/// What they say in `aud`.
const AUDIENCE: &str = "sluice";
/// What tokens of people say in `iss`.
const PEOPLE: &str = "sluice-demo-people";
/// What the secrets that they are signed with are called in the demo's own environment.
const SECRET: &str = "TOKEN_SECRET";
const SECRET_OF_PEOPLE: &str = "TOKEN_SECRET_OF_PEOPLE";
/// The folder of the policies, in that of the demo.
const POLICIES: &str = "policies";
/// What the URL of the Redis is called there.
const REDIS_URL: &str = "REDIS_URL";

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let files = SchemaFiles::built_in();
    let catalog = Catalog::build(&files, &[]).map_err(|findings| told(&findings))?;
    let runtime = Runtime::new().context("no threads to run on")?;
    let production = runtime.block_on(simulator(&files))?;
    let sandbox = runtime.block_on(simulator(&files))?;
    let secrets = [random_secret()?, random_secret()?];
    let folder = Folder::new()?;
    let config = configuration(arguments, production, sandbox, &secrets, &folder.0)?;
    policies::write(&folder.0.join(POLICIES), "people").context("the demo's policies cannot be written")?;
    let catalog = Arc::new(catalog);
    let policies = PolicyFolder::of(&config, catalog.clone(), "demo").map_err(|findings| told(&findings))?;
    let loaded = policies.load().map_err(|findings| told(&findings))?;
    let (files, written) = Default::default();
    let read = Read { config: config.clone(), written, folder: policies, policies: loaded, files };
    let read_again = {
        let read = read.clone();
        ReadAgain(Arc::new(move || Ok(Read { policies: read.folder.load()?, ..read.clone() })))
    };
    let (handed, supervisor) = Default::default();
    let process = Process::start(Given { read, read_again, handed, supervisor }, Console::new)
        .context("the demo cannot start; `--port` chooses other ports")?;
    let tokens = Tokens {
        caller: token_of(&config, "demo", "you", &[])?,
        operators: [
            token_of(&config, "people", "ops-1", &["operator"])?,
            token_of(&config, "people", "ops-2", &["operator"])?,
        ],
        approvers: [
            token_of(&config, "people", "ops-3", &["approver"])?,
            token_of(&config, "people", "finance-1", &["approver"])?,
        ],
    };
    print(&welcome(process.addresses(), production, &tokens, &folder.0.join(POLICIES)))?;
    if arguments.redis.is_some() {
        print(OF_REDIS)?;
    }
    let _log = telemetry::init(&config.log);
    process.serve()?;
    print("The demo has ended.\n")?;
    Ok(Ending::Done)
}

/// Where the demo keeps its books; it goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Folder> {
        let path = std::env::temp_dir().join(format!("sluice-demo-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("`{}` cannot be made", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

async fn simulator(files: &SchemaFiles) -> anyhow::Result<SocketAddr> {
    let simulator =
        Simulator::of_files(files, Arc::new(SystemClock), Settings::default()).map_err(|findings| told(&findings))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the simulator cannot listen")?;
    let address = listener.local_addr().context("the simulator's address is unknown")?;
    tokio::spawn(simulator.serve(listener));
    Ok(address)
}

/// The tokens of callers and those of people are signed each with a secret of their own.
fn configuration(
    Arguments { port, redis }: &Arguments,
    production: SocketAddr,
    sandbox: SocketAddr,
    [callers, people]: &[Secret; 2],
    folder: &Path,
) -> anyhow::Result<Config> {
    let port = *port;
    // Whatever it keeps is worth nothing; and no other demo has this name now.
    let shared = redis.as_ref().map_or_else(String::new, |_| {
        format!(
            "kind = \"redis\"\nnode = \"demo-{}\"\n[redis]\nurl = {{ env = \"{REDIS_URL}\" }}\nallow_unsafe = true\n\
             timeout_ms = 1_000\n",
            std::process::id()
        )
    });
    let nth = |n: u16| if port == 0 { 0 } else { port.saturating_add(n) };
    let text = format!(
        "policies = \"{}\"\n[production]\nlisten = \"127.0.0.1:{}\"\nupstream = \"http://{production}\"\ncredential = \"demo-production\"\n\
         [sandbox]\nlisten = \"127.0.0.1:{}\"\nupstream = \"http://{sandbox}\"\ncredential = \"demo-sandbox\"\n\
         [issuer.demo]\nissuer = \"{ISSUER}\"\naudience = [\"{AUDIENCE}\"]\nenvironments = [\"production\", \"sandbox\"]\n\
         algorithms = [\"HS256\"]\nshared_secret = {{ env = \"{SECRET}\" }}\n\
         [timeouts]\nanswer_ms = 5_000\n[reconcile]\nfirst_look_ms = 1_000\n[probes]\nlisten = \"127.0.0.1:{}\"\n\
         [console]\nlisten = \"127.0.0.1:{}\"\nissuer = \"people\"\n\
         [issuer.people]\nissuer = \"{PEOPLE}\"\naudience = [\"{AUDIENCE}\"]\nenvironments = []\n\
         algorithms = [\"HS256\"]\nroles = \"roles\"\nshared_secret = {{ env = \"{SECRET_OF_PEOPLE}\" }}\n\
         [audit]\nfolder = \"{}\"\n[store]\nfolder = \"{}\"\n{shared}",
        folder.join(POLICIES).display(),
        nth(0),
        nth(1),
        nth(2),
        nth(3),
        folder.join("audit").display(),
        folder.join("store").display(),
    );
    // The demo runs on what stands here alone, whatever the environment says.
    let world = World {
        environment: BTreeMap::from([
            (SECRET.to_owned(), callers.reveal().into()),
            (SECRET_OF_PEOPLE.to_owned(), people.reveal().into()),
            (REDIS_URL.to_owned(), redis.clone().unwrap_or_default().into()),
        ]),
        read_file: &|_| Err(std::io::ErrorKind::NotFound.into()),
        is_folder: &|asked| asked == folder || asked == folder.join(POLICIES),
    };
    let reading = config::read(&text, "demo", &world).map_err(|findings| told(&findings))?;
    Ok(reading.config)
}

/// For whoever tries the demo.
struct Tokens {
    caller: String,
    operators: [String; 2],
    approvers: [String; 2],
}

fn token_of(config: &Config, issuer: &str, subject: &str, roles: &[&str]) -> anyhow::Result<String> {
    let issuer = config.issuers.iter().find(|one| one.name == issuer).context("the demo lacks an issuer")?;
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    let lifetime_secs = 8 * 60 * 60;
    let wanted = Wanted { subject: subject.to_owned(), roles, lifetime_secs, ..Wanted::default() };
    token(issuer, &Signer::of(issuer, None)?, &wanted, SystemClock.now())
}

fn told(findings: &[Finding]) -> anyhow::Error {
    anyhow!(findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn welcome(addresses: &Addresses, simulator: SocketAddr, tokens: &Tokens, policies: &Path) -> String {
    let policies = policies.display();
    let gate = |wanted: Environment| {
        let found = addresses.environments.iter().find(|(environment, _)| *environment == wanted);
        found.map_or_else(String::new, |(_, address)| format!("http://{address}"))
    };
    let (production, sandbox) = (gate(Environment::Production), gate(Environment::Sandbox));
    let probes = addresses.probes;
    let console = addresses.console.map_or_else(String::new, |address| format!("http://{address}"));
    let Tokens { caller: token, operators: [first, second], approvers: [of_ops, of_finance] } = tokens;
    let call = "curl -i -H \"Authorization: Bearer $TOKEN\"";
    let json = "-H 'Content-Type: application/json'";
    format!(
        r#"Sluice's demo: a gate for production and one for sandbox, each before a simulator of the payments API.

  production  {production}
  sandbox     {sandbox}
  console     {console}
  probes      http://{probes}/readyz and /metrics

The console has a page. These links sign in, as one person in a browser at a time: private windows make others of you.

  ops-3, who approves      {console}/#token={of_ops}

  finance-1, who approves  {console}/#token={of_finance}

  ops-1, who operates      {console}/#token={first}

Try, in another terminal; first the token, which is good for this run of the demo:

  TOKEN={token}

1. A read. The answer streams through: 200, `sluice-origin: upstream`.

  {call} '{production}/v2/offramps?limit=2'

2. A good swap. 201, `sluice-outcome: executed`, and the record of the swap. Send it again: the same answer, with
   `sluice-replayed: true`, and the simulator sees nothing.

  {call} {json} \
    -d '{{"requestId": "demo-1", "source": {{"chain": "POLYGON", "currency": "usdt", "amount": "25.50"}}, "destination": {{"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}}}' \
    '{production}/v2/wallets/swaps'

3. Rules and limits. A larger swap waits for people (202; 9 goes on with such a one), the largest goes nowhere (403 `POLICY_DENIED`),
   and what passes unseen is 5000 USD a day for each caller: the last of the six gets 403 `LIMIT_EXCEEDED`.

  swap() {{ {call} {json} \
    -d "{{\"requestId\": \"$1\", \"source\": {{\"chain\": \"POLYGON\", \"currency\": \"usdt\", \"amount\": \"$2\"}}, \"destination\": {{\"chain\": \"POLYGON\", \"currency\": \"usdc\", \"walletAddress\": \"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\"}}}}" \
    '{production}/v2/wallets/swaps'; }}
  swap demo-3-larger 5000
  swap demo-3-largest 30000
  for n in 1 2 3 4 5 6; do swap demo-3-$n 90$n; done

   The rules stand in {policies}; change one, and a few seconds later it decides.
   Why a call is decided so, in words:

  sluice policy explain {policies} --issuer demo --issuer people --given 'op = "createSwap", amount = "5000 usdt"'

   What is used of each limit, as people with a role may see it:

  SLUICE_TOKEN={first} sluice policy usage --console {console}

4. A bad body. 400; every violation is named with its place, and nothing is sent.

  {call} {json} \
    -d '{{"requestId": "demo-4", "source": {{"chain": "POLYGON", "currency": "usdt", "amount": "-1"}}, "destination": {{"walletAddress": 7}}, "limitPrice": "1.00005"}}' \
    '{production}/v2/wallets/swaps'

5. An unknown path. 404: nothing that the contract does not list goes further.

  {call} '{production}/v2/everything'

6. No token, and one that somebody has altered. 401, and nothing goes further.

  curl -i '{sandbox}/v2/users'
  curl -i -H "Authorization: Bearer ${{TOKEN}}x" '{sandbox}/v2/users'

7. Stop money. As an operator; `sluice` is this very program.

  export SLUICE_TOKEN={first}
  sluice freeze --console {console} --environment production --reason 'trying it out'

   Now a new swap gets 503 `FROZEN`, and nothing is sent; reads go on, and swap 2, sent again, is answered as before.

  sluice unfreeze --console {console} --environment production --reason 'seen it'

8. A call in doubt. Upstream answers a swap with 500, which proves nothing: nobody knows what became of it.

  curl -d '{{"operation": "createSwap", "kind": "html500", "effect": false, "times": 1}}' 'http://{simulator}/simulator/faults'
  {call} {json} \
    -d '{{"requestId": "demo-8", "source": {{"chain": "POLYGON", "currency": "usdt", "amount": "7"}}, "destination": {{"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}}}' \
    '{production}/v2/wallets/swaps'
  sluice requests list --console {console}

   The simulator's journal, below, shows that it was not executed. That takes the word of two people, and six
   seconds in which upstream might still have done it; one word is not enough:

  sluice requests resolve --console {console} --environment production --outcome absent --reason 'not in its journal' demo-8

   The second is. Then the same swap, sent again, is executed.

  export SLUICE_TOKEN={second}
  sluice requests resolve --console {console} --environment production --outcome absent --reason 'nor did I find it' demo-8

9. A payment that waits for people: 2500 USD is more than the rules let pass unseen. 202, `sluice-outcome: held`, and the
   hold's id, which the list has as well.

  {call} {json} \
    -d '{{"requestId": "demo-9", "source": {{"chain": "POLYGON", "currency": "usdt", "amount": "2500"}}, "destination": {{"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}}}' \
    '{production}/v2/wallets/swaps'
  SLUICE_TOKEN={of_ops} sluice approvals list --console {console}

   One of ops and one of finance must agree: on the page, by the links above, or here, with the id in the place of HOLD:

  SLUICE_TOKEN={of_ops} sluice approvals approve --console {console} HOLD
  SLUICE_TOKEN={of_finance} sluice approvals approve --console {console} HOLD

   Then it is sent, once, and the same call, sent again, is answered with the record of the swap.

What the simulator of production received and did:

  curl 'http://{simulator}/simulator/journal'

Make it fail, and see what the gate makes of a swap with another requestId, twice (`html500`, `hang`,
`resetAfterReceiving`, …):

  curl -d '{{"operation": "createSwap", "kind": "resetAfterReceiving", "times": 1}}' 'http://{simulator}/simulator/faults'

Ctrl-C ends the demo.

"#
    )
}

const OF_REDIS: &str = "The store is in the Redis: what an earlier demo there paid is still known, and told again.

";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::KeySource;

    #[test]
    fn its_tokens_are_signed_with_the_secret_of_this_run() {
        let (production, sandbox) = (([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into());
        let there = Path::new("/there");
        let secrets = [random_secret().unwrap(), random_secret().unwrap()];
        assert_ne!(secrets[0], secrets[1]);
        let config = configuration(&Arguments { port: 0, redis: None }, production, sandbox, &secrets, there).unwrap();
        for (name, iss, secret, environments) in [("demo", ISSUER, &secrets[0], 2), ("people", PEOPLE, &secrets[1], 0)]
        {
            let issuer = config.issuers.iter().find(|issuer| issuer.name == name).unwrap();
            assert!(matches!(&issuer.keys, KeySource::Shared(shared) if shared == secret));
            assert_eq!((issuer.issuer.as_str(), issuer.environments.len()), (iss, environments));
        }
    }
}
