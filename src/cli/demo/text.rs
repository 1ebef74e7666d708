//! The texts of the demo: one screen for the terminal, and files with the variables, the links and the steps.

use std::net::SocketAddr;
use std::path::Path;

use super::Tokens;
use crate::base::ids::Environment;
use crate::serve::process::Addresses;

/// Returns the address of an environment's gate.
fn gate(addresses: &Addresses, wanted: Environment) -> String {
    let found = addresses.environments.iter().find(|(environment, _)| *environment == wanted);
    found.map_or_else(String::new, |(_, address)| format!("http://{address}"))
}

fn console(addresses: &Addresses) -> String {
    addresses.console.map_or_else(String::new, |address| format!("http://{address}"))
}

/// Returns the link that signs in with a token.
pub(super) fn link(addresses: &Addresses, token: &str) -> String {
    format!("{}/#token={token}", console(addresses))
}

/// The one screen of the demo: it fits 24 lines of 80 characters, with the link, which is longer than a line.
pub(super) fn screen(addresses: &Addresses, tokens: &Tokens, folder: &Path) -> String {
    let [production, sandbox] = [Environment::Production, Environment::Sandbox].map(|one| gate(addresses, one));
    let (probes, console, folder) = (addresses.probes, console(addresses), folder.display());
    let Tokens { approvers: [of_ops, _], .. } = tokens;
    let link = link(addresses, of_ops);
    format!(
        r#"Sluice demo: two gates, each in front of a simulator of the payments API.

  production  {production}
  sandbox     {sandbox}
  console     {console}
  probes      http://{probes}/readyz, /readyz/money and /metrics

The page, as ops-3, who approves:
{link}

Three calls to try in another terminal, and what became of them:
  . {folder}/env
  swap demo-a 25.50   # 201: executed; again: the same answer, nothing is sent
  swap demo-b 2500    # 202: held until ops-3 and finance-1 approve it
  swap demo-c 30000   # 403: denied by the rules
  sluice payments list; sluice approvals list

To go on: the files `steps`, `links` of other people, and `log` in
{folder}. Ctrl-C ends the demo and removes its files.
"#
    )
}

/// The variables and commands of the steps, to be sourced by a shell.
pub(super) fn env(addresses: &Addresses, tokens: &Tokens, program: &Path) -> String {
    let Tokens { caller, operators: [first, second], approvers: [of_ops, of_finance] } = tokens;
    let production = gate(addresses, Environment::Production);
    let programs = program.parent().unwrap_or(program).display();
    let console = console(addresses);
    format!(
        r#"TOKEN={caller}
OPS_1={first}
OPS_2={second}
OPS_3={of_ops}
FINANCE_1={of_finance}
export SLUICE_CONSOLE='{console}' SLUICE_TOKEN={of_ops}
export PATH='{programs}':"$PATH"
swap() {{ curl -sSi -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
  -d "{{\"requestId\": \"$1\", \"source\": {{\"chain\": \"POLYGON\", \"currency\": \"usdt\", \"amount\": \"$2\"}}, \"destination\": {{\"chain\": \"POLYGON\", \"currency\": \"usdc\", \"walletAddress\": \"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\"}}}}" \
  '{production}/v2/wallets/swaps'; }}
"#
    )
}

/// The links that sign in at the console's page, by person.
pub(super) fn links(addresses: &Addresses, tokens: &Tokens) -> String {
    let Tokens { operators: [first, _], approvers: [of_ops, of_finance], .. } = tokens;
    let [of_ops, of_finance, first] = [of_ops, of_finance, first].map(|token| link(addresses, token));
    format!(
        "One user per browser; use private windows for the others.\n\n\
         ops-3, who approves      {of_ops}\n\n\
         finance-1, who approves  {of_finance}\n\n\
         ops-1, who operates      {first}\n"
    )
}

/// The steps of the demo.
pub(super) fn steps(addresses: &Addresses, simulator: SocketAddr, policies: &Path) -> String {
    let folder = policies.parent().unwrap_or(policies).display();
    let policies = policies.display();
    let [production, sandbox] = [Environment::Production, Environment::Sandbox].map(|one| gate(addresses, one));
    let console = console(addresses);
    let (first, second, of_ops, of_finance) = ("$OPS_1", "$OPS_2", "$OPS_3", "$FINANCE_1");
    let call = "curl -i -H \"Authorization: Bearer $TOKEN\"";
    let json = "-H 'Content-Type: application/json'";
    format!(
        r#"Steps of the demo, each with its commands. First, in a terminal of your own:

  . {folder}/env

1. A read. The answer streams through: 200 with `sluice-origin: upstream`.

  {call} '{production}/v2/offramps?limit=2'

2. A valid swap. 201 with `sluice-outcome: executed` and the record of the swap. Send it again: the same answer, with
   `sluice-replayed: true`, and nothing is sent to the simulator.

  {call} {json} \
    -d '{{"requestId": "demo-1", "source": {{"chain": "POLYGON", "currency": "usdt", "amount": "25.50"}}, "destination": {{"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}}}' \
    '{production}/v2/wallets/swaps'

3. Rules and limits. A larger swap is held for approval (202; see step 9), and the largest is denied (403 `POLICY_DENIED`).
   Without approval, a new destination gets 100 USD a day: the last of the four small swaps is held, too.

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

7. Freeze all money, as an operator.

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

"#
    )
}

pub(super) const OF_REDIS: &str = "What earlier demos executed in this Redis gets its recorded answer again.\n";
