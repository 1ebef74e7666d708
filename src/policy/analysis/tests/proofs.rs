use super::prove::prove;
use super::world::{AnalysisWorld, Dice, is_told, seeds};
use super::*;
use crate::base::ids::OperationId;
use crate::policy::invariant::{Invariant, InvariantClaim};
use crate::policy::rules::Rules;

/// Whether an invariant is about a request, by the rule that asks the same.
fn about(invariant: &Invariant, claim: &str, words: &str) -> Rules {
    let effect = match (invariant.claim, invariant.effect) {
        (InvariantClaim::Always, Effect::Allow) | (InvariantClaim::Never, Effect::Deny) => "allow",
        _ => "deny",
    };
    set(&format!("{}{words}", rule("same", effect, claim))).rules
}

fn fits(about: &Rules, payment: &Payment) -> bool {
    let verdict = payment.decide(about, catalog()).unwrap();
    // A field that no rule names is denied besides.
    let is_unnamed = verdict.reasons.iter().all(|reason| reason.text.ends_with("no matching rule names it"));
    let outweighed = verdict.outweighed.iter().filter(|_| is_unnamed);
    verdict
        .reasons
        .iter()
        .chain(outweighed)
        .any(|reason| reason.cause.to_string() == "rule same" && reason.text.ends_with("by rule"))
}

#[test]
fn what_is_proved_of_small_worlds_is_so_of_every_request() {
    let mut counts = [0; 3];
    for seed in seeds(0..60) {
        let mut dice = Dice::of(seed);
        let world = AnalysisWorld::random(&mut dice);
        let rules = set(&world.set(&mut dice)).rules;
        let limits: Vec<&str> = rules.limits.iter().map(|limit| &*limit.id).collect();
        let requests = world.requests(&limits);
        let verdicts: Vec<_> = requests.iter().map(|payment| payment.decide(&rules, catalog()).unwrap()).collect();
        for at in 0..6 {
            let (claim, effect) =
                (*dice.one(&["never", "never", "always"]), *dice.one(&["allow", "allow", "hold", "deny"]));
            let when = world.when(&mut dice);
            let text = format!("[[invariant]]\nid = \"i{at}\"\n{claim} = {{ effect = \"{effect}\", {when} }}\n");
            let files = [("set.toml".to_owned(), text.clone())];
            let invariant = unread(&files);
            let is_about = about(&invariant, &when, "");
            let is_forbidden = |found: Effect| match invariant.claim {
                InvariantClaim::Never => found == invariant.effect,
                InvariantClaim::Always => found != invariant.effect,
            };
            let may_deny = is_forbidden(Effect::Deny);
            let has_amount = catalog().operation(&OperationId::new(world.operation)).unwrap().has_amount();
            let broken = requests.iter().zip(&verdicts).find(|(payment, verdict)| {
                let is_looked_at = (!has_amount || verdict.value.is_some()) && (!may_deny || is_told(payment));
                is_looked_at && is_forbidden(verdict.effect) && fits(&is_about, payment)
            });
            let shown = format!("seed {seed}: {text}");
            match prove(&rules, std::slice::from_ref(&invariant), &known(), PROVING_STEPS).remove(0).1 {
                Proof::Proved => {
                    counts[0] += 1;
                    assert!(broken.is_none(), "{shown} is broken by {}", broken.unwrap().0);
                }
                Proof::Refuted(found) => {
                    counts[1] += 1;
                    let (payment, verdict) = *found;
                    assert_eq!(payment.decide(&rules, catalog()).unwrap(), verdict, "{shown}");
                    assert!(is_forbidden(verdict.effect) && fits(&is_about, &payment), "{shown}: {payment}");
                }
                Proof::Unproved => counts[2] += 1,
            }
        }
    }
    assert!(counts[0] > 30 && counts[1] > 30 && counts[2] < 5, "{counts:?}");
}

/// An invariant that was not put to the rules yet.
fn unread(files: &[(String, String)]) -> Invariant {
    crate::policy::read_unproved(files, &known()).unwrap().policies.invariants.remove(0)
}
