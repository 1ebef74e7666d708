//! A Redis in which somebody damaged a single field, so that it cannot be read any more: each is recognised, the store is
//! rebuilt from a journal, people are asked, and nothing goes out twice.

use serde_json::{Value, json};

use super::claims::{swap, told};
use super::console::{console, lift};
use super::doctor;
use super::nodes::{EXECUTED, all_have_it, setup};
use crate::support::clock::wait_until;
use crate::support::scripted::{DIGEST, digest};
use crate::support::{Answer, Call, Gate, Redis, Setup, Upstream};

const ROOT: &str = "sluice:{production}";
/// What each damage can use.
const TOOLS: &str = "
    local root, call = KEYS[1], redis.call
    local head = root .. ':a'
    local function number(nth, value) call('SETRANGE', head, 8 * nth, struct.pack('<d', value)) end
    local function text(key) call('DEL', root .. key) call('SET', root .. key, 'x') end
    local function cut(bytes) call('SET', head, string.sub(call('GET', head), 1, bytes)) end
    local NAN, END = 0 / 0, 2 ^ 53 - 1
";

/// What somebody does, and what the log says of it.
type Damage = (&'static str, &'static str);

const CUT: &str = "its head is cut";
const NUMBERS: &str = "its head has numbers that no gate writes";
const FORMAT: &str = "the format in its head is no number that gates write";
const LINES: &str = "its head has lines, or a loss, that no gate writes";
const FIELD: &str = "has a field that no gate writes";
const TYPE: &str = "has not the type that gates give it";
const RECORD: &str = "it has a record that no gate writes";
const ENTRY: &str = "it has an entry that no gate writes";
const EXPIRY: &str = "it has an expiry that no gate writes";
const WINDOW: &str = "it has a window that no gate writes";
/// Changes each window, behind whose slots a sum may stand.
const WINDOWS: &str = "for _, key in ipairs(call('KEYS', root .. ':s:*')) do";

fn sealed(upstream: &Upstream, redis: &Redis, node: &str) -> Setup {
    setup(upstream, &redis.url(), node).set("store", "seal_key", &"5e".repeat(32))
}

fn gates(upstream: &Upstream, redis: &Redis) -> [Gate; 2] {
    ["left", "right"].map(|node| console(sealed(upstream, redis, node)).start().ready())
}

fn pay(gate: &Gate) -> (Call, Answer) {
    let call = swap();
    let first = call.send(gate.production());
    assert_eq!(told(&first), EXECUTED, "{}", gate.stderr());
    (call, first)
}

fn damage(redis: &Redis, script: &str) {
    redis.ask(&["EVAL", &format!("{TOOLS} {script}"), "1", ROOT]);
}

/// How many lines of the logs say that the store cannot be read, for this reason.
fn lines(gates: &[Gate], words: &str) -> usize {
    let is_told = |line: &Value| {
        line["message"].to_string().contains("cannot be read") && line["why"].to_string().contains(words)
    };
    gates.iter().map(|gate| gate.log.all().iter().filter(|line| is_told(line)).count()).sum()
}

fn asks_people(gate: &Gate, script: &str) {
    let asks = || gate.probe("/readyz/money").text().contains("restored");
    wait_until(&format!("people to be asked after {script}"), asks);
}

/// People open money, and all is as before.
fn open(gates: &[Gate], paid: &[(Call, Answer)]) {
    let answer = lift(&gates[0], json!("restored"));
    assert_eq!(answer.json()["changed"], true, "{answer}");
    for gate in gates {
        wait_until("money to move again", || told(&swap().send(gate.production())) == EXECUTED);
        wait_until("the probe to say so", || gate.probe("/readyz/money").status == 200);
        for (call, first) in paid {
            assert_eq!(call.send(gate.production()).text(), first.text());
        }
    }
}

/// Each damage is recognised, and mended from the journals.
fn are_mended(damages: &[Damage]) {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis);
    let asks = sealed(&upstream, &redis, "asks");
    let mut paid = Vec::new();
    for (nth, (script, why)) in damages.iter().enumerate() {
        paid.push(pay(&gates[nth % 2]));
        all_have_it(&redis);
        let (sent, before) = (upstream.seen().len(), lines(&gates, why));
        damage(&redis, script);
        for (call, first) in &paid {
            let again = call.send(gates[nth % 2].production());
            assert!(again.text() == first.text() || again.status == 503, "{script}: {again}");
        }
        gates.iter().for_each(|gate| asks_people(gate, script));
        let (code, said) = doctor::json(&asks);
        assert!(code != 0 && said["environments"][0]["money"] != "open", "{script}: {said}");
        wait_until(&format!("the log to tell of {script}"), || lines(&gates, why) > before);
        assert!(lines(&gates, why) <= before + gates.len(), "{script} is told more than once");
        assert_eq!(upstream.seen().len(), sent, "{script}");
        open(&gates, &paid);
        assert_eq!(upstream.seen().len(), sent + gates.len(), "{script}");
    }
}

#[test]
fn a_head_that_is_no_head_is_mended() {
    are_mended(&[
        ("call('DEL', head) call('RPUSH', head, 'x')", TYPE),
        ("cut(20)", NUMBERS),
        ("cut(59)", CUT),
        ("cut(70)", CUT),
        ("call('SET', head, 'x')", FORMAT),
        ("call('APPEND', head, 'x y')", LINES),
        ("call('SETRANGE', head, 100000, 'x')", LINES),
        ("call('SETRANGE', head, 56, '\\255\\255')", CUT),
        ("call('APPEND', head, '\\nleft 99999999999999999999999999')", LINES),
    ]);
}

#[test]
fn numbers_of_the_head_that_are_none_are_mended() {
    are_mended(&[
        ("number(0, NAN)", FORMAT),
        ("number(0, math.huge)", FORMAT),
        ("number(0, -8)", FORMAT),
        ("number(1, NAN)", NUMBERS),
        ("number(1, -1)", NUMBERS),
        ("number(2, math.huge)", NUMBERS),
        ("number(2, -math.huge)", NUMBERS),
        ("number(3, 0.5)", NUMBERS),
        ("number(4, NAN)", NUMBERS),
        ("number(5, -3)", NUMBERS),
        ("number(6, NAN)", NUMBERS),
        ("number(6, -1)", NUMBERS),
        ("number(6, END)", LINES),
    ]);
}

#[test]
fn fields_beside_the_head_that_no_gate_writes_are_mended() {
    let rebuilding = "call('HSET', root, 'rebuilding', 'x ' .. END) number(6, call('TIME')[1] * 1000000)";
    are_mended(&[
        ("call('HSET', root .. ':n', 'left', 'x')", FIELD),
        ("call('HSET', root .. ':n', 'x y', 'i 1 r  {}')", FIELD),
        // A gate that runs writes its own field at any moment.
        ("call('HSET', root .. ':k', 'gone', 'x')", FIELD),
        ("call('HSET', root .. ':c', 'left', 'x')", FIELD),
        ("call('HSET', root, 'taken', 'x')", FIELD),
        ("call('HSET', root, 'epoch', 'nan')", FIELD),
        ("call('HSET', root, 'promoted', string.format('%d', END))", FIELD),
        (rebuilding, FIELD),
        ("call('HSET', root, 'rebuilding', 'x') number(6, 1)", FIELD),
    ]);
}

#[test]
fn keys_of_another_type_are_mended() {
    are_mended(&[
        ("text('')", TYPE),
        ("text(':n')", TYPE),
        ("text(':k')", TYPE),
        ("text(':q')", TYPE),
        ("text(':x')", TYPE),
        ("text(':i:frozen')", TYPE),
        ("text(':d:left')", TYPE),
    ]);
}

/// A record that nobody can read is found where it is read.
#[test]
fn records_that_nobody_can_read_are_mended() {
    let all = |what: &str| format!("for _, key in ipairs(call('KEYS', root .. ':r:claim:*')) do {what} end");
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis);
    let paid = [pay(&gates[0]), pay(&gates[1])];
    all_have_it(&redis);
    let sent = upstream.seen().len();
    for script in [all("call('SET', key, 'x')"), all("call('SETRANGE', key, 32, 'y')")] {
        damage(&redis, &script);
        assert_eq!(paid[0].0.send(gates[0].production()).status, 503);
        gates.iter().for_each(|gate| asks_people(gate, &script));
        assert!(lines(&gates, RECORD) > 0);
        open(&gates, &paid);
    }
    assert_eq!(upstream.seen().len(), sent + 4);
}

/// A later version may have written another format: nothing of it is removed, and the remedy that is told works.
#[test]
fn another_format_waits_for_people_and_the_remedy_that_is_told_works() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis);
    let asks = sealed(&upstream, &redis, "asks");
    let paid = [pay(&gates[0])];
    all_have_it(&redis);
    let sent = upstream.seen().len();
    for format in ["9", "7"] {
        damage(&redis, &format!("number(0, {format})"));
        let told_of = || gates[1].probe("/readyz/money").text();
        wait_until("the probe to tell the remedy", || told_of().contains("remove `sluice:{production}:a`"));
        assert_eq!(paid[0].0.send(gates[0].production()).status, 503);
        let (code, said) = doctor::json(&asks);
        assert!(code != 0 && said["environments"][0]["money"] != "open", "{said}");
        redis.ask(&["DEL", &format!("{ROOT}:a")]);
        for gate in &gates {
            wait_until("all to be known again", || paid[0].0.send(gate.production()).text() == paid[0].1.text());
        }
    }
    assert_eq!(upstream.seen().len(), sent);
}

/// A gate that starts has its journal as well.
#[test]
fn what_was_damaged_while_no_gate_ran_is_mended_by_one_that_starts() {
    for script in ["number(2, NAN)", "text(':n')", "cut(70)"] {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let gate = console(sealed(&upstream, &redis, "left")).start().ready();
        let paid = [pay(&gate)];
        all_have_it(&redis);
        let sent = upstream.seen().len();
        let stopped = gate.end();
        damage(&redis, script);
        let gates = [stopped.start()];
        asks_people(&gates[0], script);
        assert_eq!(paid[0].0.send(gates[0].production()).status, 200);
        assert_eq!(upstream.seen().len(), sent);
        open(&gates, &paid);
    }
}

#[test]
fn content_that_nobody_can_read_is_mended() {
    are_mended(&[
        ("call('ZADD', root .. ':q', 1e15, 'garbage')", ENTRY),
        ("call('ZADD', root .. ':x', 1, 's')", EXPIRY),
    ]);
}

/// The sum behind the slots of a window only saves that they are read. Slots that count nothing stop no payment.
#[test]
fn windows_with_what_is_no_number_are_mended() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let limits = include_str!("../support/two_limits.toml");
    let gates = [console(sealed(&upstream, &redis, "left").file("policies/limits.toml", limits)).start().ready()];
    let paid = [pay(&gates[0])];
    assert_eq!(redis.ask(&["KEYS", &format!("{ROOT}:s:*")]).len(), 2);
    // At first there is no sum.
    for place in ["none", "NAN", "-31", "2", "1e9", "0"] {
        damage(
            &redis,
            &format!(
                "{WINDOWS}
                    local window = call('GET', key)
                    if #window % 32 == 8 then
                        call('SETRANGE', key, #window - 8, struct.pack('<d', {place}))
                    else
                        local matters = struct.unpack('<d', window, 25)
                        for nth = 1, 2 do window = window .. struct.pack('<dddd', nth, nth + 1, 0, matters) end
                        call('SET', key, window)
                    end
                end"
            ),
        );
        pay(&gates[0]);
    }
    assert_eq!(lines(&gates, ""), 0);
    let no_units = "local window = string.sub(call('GET', key), 1, -41)
        call('SET', key, string.sub(window, 1, 16) .. struct.pack('<d', NAN) .. string.sub(window, 25))";
    damage(&redis, &format!("{WINDOWS} {no_units} end"));
    assert_eq!(swap().send(gates[0].production()).status, 503);
    asks_people(&gates[0], "a slot without units");
    assert!(lines(&gates, WINDOW) > 0);
    open(&gates, &paid);
}

/// A gate whose machine stood still sees what the others wrote meanwhile as yet to come.
#[test]
fn times_that_a_slow_gate_sees_as_ahead_are_no_damage() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis);
    pay(&gates[0]);
    damage(
        &redis,
        "local ahead = string.format('%d', (call('TIME')[1] + 90) * 1000000)
         call('HSET', root, 'promoted', ahead, 'since', ahead, 'shows', 'x ' .. ahead, 'rebuilding', 'x ' .. ahead)",
    );
    let beats = || redis.ask(&["HGET", &format!("{ROOT}:n"), "right"]);
    for _ in 0..2 {
        let before = beats();
        wait_until("another heartbeat", || beats() != before);
    }
    assert_eq!(lines(&gates, ""), 0);
    assert_eq!(redis.ask(&["HEXISTS", ROOT, "promoted"]), ["1"]);
}

/// What a gate found may be mended by the time that it says so, or the store another one: then nothing is closed.
#[test]
fn damage_that_is_gone_closes_nothing() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis);
    let paid = [pay(&gates[0])];
    all_have_it(&redis);
    let script = include_str!("../../src/adapters/store/redis/script.lua");
    // The mark of the call, no time, no commits, a node, no generation, and no run.
    let head = format!("one call{}\u{1}\0x\0\0\0\0", "\0".repeat(32));
    let says = |what: [&str; 3]| {
        let answer = redis.ask(&[&["EVAL", script, "1", ROOT, "distrust", &head], &what[..]].concat()).concat();
        let (said, end) = answer.split_at(answer.len() - DIGEST.len());
        assert_eq!(end, digest(said, "one call"));
        said.to_owned()
    };
    assert_eq!(says(["damaged", "", "-"]), "no");
    assert_eq!(says(["damaged", "another", "0"]), "no");
    assert_eq!(says(["contradicts", "another", ""]), "no");
    damage(&redis, "call('ZADD', root .. ':q', 1e15, 'garbage')");
    gates.iter().for_each(|gate| asks_people(gate, "an entry that is none"));
    open(&gates, &paid);
    assert_eq!(says(["damaged", "", "0"]), "no");
    pay(&gates[1]);
}

/// An earlier version looks there alone: it must not take the store for a lost one.
#[test]
fn earlier_versions_find_the_format_where_they_look_for_it() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis);
    let format = || redis.ask(&["HGET", ROOT, "format"]).concat();
    assert_eq!(format(), "8");
    damage(&redis, "call('HDEL', root, 'format')");
    wait_until("a heartbeat to write it", || format() == "8");
    let paid = [pay(&gates[0])];
    all_have_it(&redis);
    redis.ask(&["FLUSHALL"]);
    wait_until("the store to be rebuilt", || paid[0].0.send(gates[1].production()).text() == paid[0].1.text());
    assert_eq!((format().as_str(), lines(&gates, "")), ("8", 0));
}
