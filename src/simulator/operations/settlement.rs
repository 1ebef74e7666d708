//! New settlement rule sets.

use super::super::answer::Done;
use super::super::call::SimulatedCall;
use super::super::refusal::SimulatorRefusal;
use super::super::settlement::RuleSet;
use super::super::state::SimulatorState;

pub(super) fn create(state: &mut SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let request_id = call.text("/requestId").unwrap_or_default();
    if let Some(first) = state.repeated(&state.rule_sets, request_id) {
        return Ok(Done::repeated(first.body.clone()));
    }
    let (id, created_at) = state.next_record("settlement-rule", call.now);
    let rule_set = RuleSet::of(call, id, created_at);
    let body = rule_set.body.clone();
    state.rule_sets.push(rule_set);
    Ok(Done::created(body))
}
