//! `sluice demo`: runs a simulator and a gate on loopback, and prints calls to try.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::Args;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::create_store::create_now;
use super::token::{TokenSigner, WantedToken, make_token};
use super::{ExitReason, policies, print, random_secret};
use crate::adapters::clock::SystemClock;
use crate::adapters::policies::PolicyFolder;
use crate::base::finding::Finding;
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::catalog::{Catalog, SchemaFiles};
use crate::config::{self, Config, ConfigWorld};
use crate::ports::Clock as _;
use crate::serve::process::{Addresses, Process, StartInputs};
use crate::serve::{ReadAgain, StartConfig};
use crate::simulator::{Settings, Simulator};
use crate::telemetry;

/// Try the gate: runs a simulator and a gate on loopback, with nothing to install
///
/// Prints ready-made calls and the result of each. Ctrl-C ends the demo and removes its files.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Port of the production gate; sandbox, probes and console use the next three. With 0, any free ports are used
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Keep the store in this Redis: `redis://127.0.0.1:6379/1`. The data stays there when the demo ends
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
}

/// The `iss` of the callers' tokens.
const ISSUER: &str = "sluice-demo";
/// The `aud` of all tokens.
const AUDIENCE: &str = "sluice";
/// The `iss` of people's tokens.
const PEOPLE: &str = "sluice-demo-people";
/// The variables that hold the signing secrets, in the demo's own environment.
const SECRET: &str = "TOKEN_SECRET";
const SECRET_OF_PEOPLE: &str = "TOKEN_SECRET_OF_PEOPLE";
/// The policy folder inside the demo's folder.
const POLICIES: &str = "policies";
/// The variable that holds the URL of the Redis, in the demo's own environment.
const REDIS_URL: &str = "REDIS_URL";

pub(super) fn run(arguments: &DemoArgs) -> anyhow::Result<ExitReason> {
    let files = SchemaFiles::built_in();
    let catalog = Catalog::build(&files, &[]).map_err(|findings| join_findings(&findings))?;
    let runtime = Runtime::new().context("the async runtime cannot start")?;
    let production = runtime.block_on(simulator(&files))?;
    let sandbox = runtime.block_on(simulator(&files))?;
    let secrets = [random_secret()?, random_secret()?];
    let folder = Folder::new()?;
    let config = configuration(arguments, production, sandbox, &secrets, &folder.0)?;
    create_now(&config)?;
    policies::write_shipped(&folder.0.join(POLICIES), "people").context("the demo's policies cannot be written")?;
    let catalog = Arc::new(catalog);
    let policies = PolicyFolder::of(&config, catalog.clone(), "demo").map_err(|findings| join_findings(&findings))?;
    let loaded = policies.load().map_err(|findings| join_findings(&findings))?;
    let (files, written) = Default::default();
    let read = StartConfig { config: config.clone(), written, folder: policies, policies: loaded, files };
    let read_again = {
        let read = read.clone();
        ReadAgain(Arc::new(move || Ok(StartConfig { policies: read.folder.load()?, ..read.clone() })))
    };
    let (handed, supervisor) = Default::default();
    let process = Process::start(StartInputs { read, read_again, handed, supervisor })
        .context("the demo cannot start; if a port is in use, choose others with `--port`")?;
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
    Ok(ExitReason::Done)
}

/// The folder of the demo's store, audit log and policies; it is removed when the demo ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Folder> {
        let path = std::env::temp_dir().join(format!("sluice-demo-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("`{}` cannot be created", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

async fn simulator(files: &SchemaFiles) -> anyhow::Result<SocketAddr> {
    let simulator = Simulator::of_files(files, Arc::new(SystemClock), Settings::default())
        .map_err(|findings| join_findings(&findings))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the simulator cannot listen")?;
    let address = listener.local_addr().context("the simulator's address is unknown")?;
    tokio::spawn(simulator.serve(listener));
    Ok(address)
}

/// Builds the configuration. The tokens of callers and of people are signed with two different secrets.
fn configuration(
    DemoArgs { port, redis }: &DemoArgs,
    production: SocketAddr,
    sandbox: SocketAddr,
    [callers, people]: &[Secret; 2],
    folder: &Path,
) -> anyhow::Result<Config> {
    let port = *port;
    // Losing the demo's data is harmless, and no other running demo has this node name.
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
    // The demo uses only these variables, not the environment of the process.
    let world = ConfigWorld {
        environment: BTreeMap::from([
            (SECRET.to_owned(), callers.reveal().into()),
            (SECRET_OF_PEOPLE.to_owned(), people.reveal().into()),
            (REDIS_URL.to_owned(), redis.clone().unwrap_or_default().into()),
        ]),
        read_file: &|_| Err(std::io::ErrorKind::NotFound.into()),
        is_folder: &|asked| asked == folder || asked == folder.join(POLICIES),
    };
    let reading = config::parse_config(&text, "demo", &world).map_err(|findings| join_findings(&findings))?;
    Ok(reading.config)
}

/// The tokens that the demo prints.
struct Tokens {
    caller: String,
    operators: [String; 2],
    approvers: [String; 2],
}

fn token_of(config: &Config, issuer: &str, subject: &str, roles: &[&str]) -> anyhow::Result<String> {
    let issuer =
        config.issuers.iter().find(|one| one.name == issuer).context("the demo's configuration lacks an issuer")?;
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    let lifetime_secs = 8 * 60 * 60;
    let wanted = WantedToken { subject: subject.to_owned(), roles, lifetime_secs, ..WantedToken::default() };
    make_token(issuer, &TokenSigner::of(issuer, None)?, &wanted, SystemClock.now())
}

fn join_findings(findings: &[Finding]) -> anyhow::Error {
    anyhow!(findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn welcome(addresses: &Addresses, simulator: SocketAddr, tokens: &Tokens, policies: &Path) -> String {
    let folder = policies.parent().unwrap_or(policies).display();
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
        r#"Sluice demo: one gate for production and one for sandbox, each in front of a simulator of the payments API.

  production  {production}
  sandbox     {sandbox}
  console     {console}
  probes      http://{probes}/readyz, /readyz/money and /metrics

These links sign in at the console's page. One user per browser; use private windows for the others.

  ops-3, who approves      {console}/#token={of_ops}

  finance-1, who approves  {console}/#token={of_finance}

  ops-1, who operates      {console}/#token={first}

Try these calls in another terminal. First set the token, which is valid for this run of the demo:

  TOKEN={token}

1. A read. The answer streams through: 200 with `sluice-origin: upstream`.

  {call} '{production}/v2/offramps?limit=2'

2. A valid swap. 201 with `sluice-outcome: executed` and the record of the swap. Send it again: the same answer, with
   `sluice-replayed: true`, and nothing is sent to the simulator.

  {call} {json} \
    -d '{{"requestId": "demo-1", "source": {{"chain": "POLYGON", "currency": "usdt", "amount": "25.50"}}, "destination": {{"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}}}' \
    '{production}/v2/wallets/swaps'

3. Rules and limits. A larger swap is held for approval (202; see step 9), and the largest is denied (403 `POLICY_DENIED`).
   Without approval, a new destination gets 100 USD a day: the last of the four small swaps is held, too.

  swap() {{ {call} {json} \
    -d "{{\"requestId\": \"$1\", \"source\": {{\"chain\": \"POLYGON\", \"currency\": \"usdt\", \"amount\": \"$2\"}}, \"destination\": {{\"chain\": \"POLYGON\", \"currency\": \"usdc\", \"walletAddress\": \"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\"}}}}" \
    '{production}/v2/wallets/swaps'; }}
  swap demo-3-larger 5000
  swap demo-3-largest 30000
  for n in 1 2 3 4; do swap demo-3-$n 2$n; done

   The rules are in {policies}; a change applies a few seconds later.
   To see which rules decide a call:

  sluice policy explain {policies} --issuer demo --issuer people --given 'op = "createSwap", amount = "5000 usdt"'

   To see the usage of each limit, as a person with any role of the console:

  SLUICE_TOKEN={first} sluice policy usage --console {console}

4. An invalid body. 400 with the place of every violation, and nothing is sent.

  {call} {json} \
    -d '{{"requestId": "demo-4", "source": {{"chain": "POLYGON", "currency": "usdt", "amount": "-1"}}, "destination": {{"walletAddress": 7}}, "limitPrice": "1.00005"}}' \
    '{production}/v2/wallets/swaps'

5. An unknown path. 404: only operations of the contract are forwarded.

  {call} '{production}/v2/everything'

6. No token, and an altered token. 401, and nothing is sent.

  curl -i '{sandbox}/v2/users'
  curl -i -H "Authorization: Bearer ${{TOKEN}}x" '{sandbox}/v2/users'

7. Freeze all money, as an operator. `sluice` is this program.

  export SLUICE_TOKEN={first}
  sluice freeze --console {console} --environment production --reason 'trying it out'

   Now a new swap gets 503 `FROZEN`, and nothing is sent; reads still work, and the swap of step 2, sent again, gets the same
   answer as before. In production two people must lift a freeze:

  sluice unfreeze --console {console} --environment production --reason 'seen it'
  SLUICE_TOKEN={second} sluice unfreeze --console {console} --environment production --reason 'so have I'

8. A call with an unknown outcome. Upstream answers a swap with 500, which does not show whether it was executed.

  curl -d '{{"operation": "createSwap", "kind": "html500", "effect": false, "times": 1}}' 'http://{simulator}/simulator/faults'
  {call} {json} \
    -d '{{"requestId": "demo-8", "source": {{"chain": "POLYGON", "currency": "usdt", "amount": "7"}}, "destination": {{"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}}}' \
    '{production}/v2/wallets/swaps'
  sluice requests list --console {console}

   The simulator's journal, below, shows that it was not executed. Two people must confirm this, at least six seconds after the
   call, because upstream could execute it late. The first:

  sluice requests resolve --console {console} --environment production --outcome absent --reason 'not in its journal' demo-8

   The second. Then the same swap, sent again, is executed.

  export SLUICE_TOKEN={second}
  sluice requests resolve --console {console} --environment production --outcome absent --reason 'nor did I find it' demo-8

9. A payment that needs approval: the rules hold a swap of 2500 USD. 202 with `sluice-outcome: held` and the hold's id, which
   the list shows as well.

  {call} {json} \
    -d '{{"requestId": "demo-9", "source": {{"chain": "POLYGON", "currency": "usdt", "amount": "2500"}}, "destination": {{"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}}}' \
    '{production}/v2/wallets/swaps'
  SLUICE_TOKEN={of_ops} sluice approvals list --console {console}

   One of ops and one of finance must approve: on the page, by the links above, or here, with the id in place of HOLD:

  SLUICE_TOKEN={of_ops} sluice approvals approve --console {console} HOLD
  SLUICE_TOKEN={of_finance} sluice approvals approve --console {console} HOLD

   Then it is sent once, and the same call, sent again, gets the record of the swap.

10. A change of the rules, with figures: what 2000 USD without approval instead of 1000 would allow, and what it would have meant
   for the calls above. The key lets the program find personal names, which the audit log has as digests only.

  cp -r {policies} next
  sed -i 's/(0, 1000] USD/(0, 2000] USD/; s/(1000, /(2000, /' next/*.toml
  cp {folder}/store/operand.key {folder}/audit/
  sluice policy diff {policies} next --issuer demo --issuer people --audit {folder}/audit

   And the largest amounts that pass with nobody, and with two people:

  sluice policy table next --issuer demo --issuer people

What the simulator of production received and did:

  curl 'http://{simulator}/simulator/journal'

Make upstream fail (`html500`, `hang`, `resetAfterReceiving`, …), and send a swap with a new requestId twice:

  curl -d '{{"operation": "createSwap", "kind": "resetAfterReceiving", "times": 1}}' 'http://{simulator}/simulator/faults'

Ctrl-C ends the demo.

"#
    )
}

const OF_REDIS: &str =
    "The store is in the Redis: a swap that an earlier demo executed there gets its recorded answer again.

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
        let config = configuration(&DemoArgs { port: 0, redis: None }, production, sandbox, &secrets, there).unwrap();
        for (name, iss, secret, environments) in [("demo", ISSUER, &secrets[0], 2), ("people", PEOPLE, &secrets[1], 0)]
        {
            let issuer = config.issuers.iter().find(|issuer| issuer.name == name).unwrap();
            assert!(matches!(&issuer.keys, KeySource::Shared(shared) if shared == secret));
            assert_eq!((issuer.issuer.as_str(), issuer.environments.len()), (iss, environments));
        }
    }
}
