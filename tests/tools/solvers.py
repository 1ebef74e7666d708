"""Has public solvers decide the claims of the policy analysis.

Usage: `python tests/tools/solvers.py SLUICE [--long]`.

Makes random policy sets, and asks `sluice policy` about each: which invariants are proved or broken, which rules have
no effect, what changes from one set to the next and for which amounts, and the largest amounts that pass. Writes each
claim as SMT-LIB, from the rules and not from the analysis, and has z3 and cvc5 decide it. The example of a claim is
part of what they decide: it must be a request that shows the claim.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import cvc5

from report import Report

SEED = 22
USUAL_SETS = 24
LONG_SETS = 1_000
Z3 = Path(sys.executable).parent / "z3"
MAX_VALUE = 2**53 - 1

USERS = {"9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11": 1, "11111111-2f53-4a5e-9a52-6a1c0f7d4e11": 2}
WALLETS = {"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed": 1, "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359": 2}
EXTERNALS = {"22222222-2f53-4a5e-9a52-6a1c0f7d4e11": 1}
CALLERS = {"main:a": 1, "console:b": 2}
WAYS = {"user": USERS, "wallet": WALLETS, "external_wallet": EXTERNALS}
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WORDS = """
[group.ops]
members = ["console:ops-1", "console:ops-2", "console:ops-3"]
[group.finance]
members = ["console:finance-1", "console:finance-2"]
[approval.one]
of = "ops"
n = 1
expires = "1h"
[approval.dual]
all = [{ of = "ops", n = 2 }, { of = "finance", n = 1 }]
expires = "8h"
[list.expiring]
user = [
    "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11",
    { name = "11111111-2f53-4a5e-9a52-6a1c0f7d4e11", expires = "2026-01-15 UTC" },
]
"""
LAST_DAY = date(2026, 1, 15)
# One request. A name is a number: 0 is absent, 9 is one that no rule names. A destination was paid before (1), was not
# (0), lately (3), or it is not known (2). A price is in units of 8 decimals; -1 is none, -2 one that cannot be read.
REQUEST = f"""
(set-logic ALL)
(declare-const sandbox Bool)
(declare-const caller Int)
(assert (or (= caller 1) (= caller 2) (= caller 8) (= caller 9)))
(declare-const role_r Bool)
(declare-const role_s Bool)
(declare-const user Int)
(assert (or (= user 0) (= user 1) (= user 2) (= user 9)))
(declare-const wallet Int)
(assert (or (= wallet 0) (= wallet 1) (= wallet 2) (= wallet 9)))
(declare-const external_wallet Int)
(assert (or (= external_wallet 0) (= external_wallet 1) (= external_wallet 9)))
(declare-const paid_user Int)
(assert (<= 0 paid_user 3))
(declare-const paid_wallet Int)
(assert (<= 0 paid_wallet 3))
(declare-const paid_external_wallet Int)
(assert (<= 0 paid_external_wallet 3))
(declare-const source_chain Int)
(assert (or (= source_chain 0) (= source_chain 1) (= source_chain 9)))
(declare-const destination_chain Int)
(assert (or (= destination_chain 0) (= destination_chain 1) (= destination_chain 9)))
(assert (=> (not (= wallet 0)) (not (= destination_chain 0))))
(declare-const value Int)
(assert (<= 1 value {MAX_VALUE}))
(declare-const price Int)
(assert (<= (- 2) price))
(declare-const seconds Int)
(assert (or (= seconds 0) (= seconds 60) (= seconds 90) (= seconds 9)))
(declare-const weekday Int)
(assert (<= 0 weekday 6))
(declare-const day Int)
(assert (<= 0 day))
(assert (= weekday (mod (+ day 3) 7)))
(declare-const hour Int)
(assert (<= 0 hour 23))
(declare-const full Bool)
"""


@dataclass
class Condition:
    """A condition as text, and as formulas: it holds for an allow, it holds for others, a fact is missing."""

    text: str
    permits: str
    restricts: str
    lacks: str = "false"


@dataclass
class Rule:
    """A rule or, with `most`, a limit."""

    name: str
    effect: str
    approval: str
    conditions: list[Condition]

    def toml(self) -> str:
        """Write the rule."""
        approval = f'approval = "{self.approval}"\n' if self.effect == "hold" else ""
        when = ", ".join(['op = "createSwap"'] + [condition.text for condition in self.conditions])
        return f'[[rule]]\nid = "{self.name}"\neffect = "{self.effect}"\n{approval}when = {{ {when} }}\n'


@dataclass
class Invariant:
    """A claim about all requests that meet conditions."""

    name: str
    claim: str
    effect: str
    conditions: list[Condition]

    def toml(self) -> str:
        """Write the invariant."""
        when = ", ".join(['op = "createSwap"'] + [condition.text for condition in self.conditions])
        return f'[[invariant]]\nid = "{self.name}"\n{self.claim} = {{ effect = "{self.effect}", {when} }}\n'


@dataclass
class PolicySet:
    """Rules, at most one limit in USD, and invariants."""

    rules: list[Rule]
    limit: tuple[int, str] | None
    invariants: list[Invariant] = field(default_factory=list)

    def toml(self, with_invariants: bool) -> str:
        """Write the set."""
        text = "".join(rule.toml() for rule in self.rules)
        if self.limit:
            most, over = self.limit
            approval = f'approval = "{over}"\n' if over else ""
            text += (
                f'[[limit]]\nid = "day"\nops = "createSwap"\nwindow = "rolling 24h"\nper = ["environment"]\n'
                f'max = "{most} USD"\nover = "{"hold" if over else "deny"}"\n{approval}'
            )
        if with_invariants:
            text += "".join(invariant.toml() for invariant in self.invariants)
        return WORDS + text

    def without(self, name: str) -> "PolicySet":
        """Return the set without a rule."""
        return PolicySet([rule for rule in self.rules if rule.name != name], self.limit)

    def formulas(self, side: str) -> str:
        """Define what the set decides: `allow_SIDE`, `hold_SIDE`, `deny_SIDE`, and which rules match."""
        lines, by_effect = [], {"allow": ["false"], "hold": ["false"], "deny": ["false"]}
        approvals: dict[str, list[str]] = {"one": ["false"], "dual": ["false"]}
        for rule in self.rules:
            holds = [c.permits if rule.effect == "allow" else c.restricts for c in rule.conditions]
            may = [f"(or {h} {c.lacks})" for h, c in zip(holds, rule.conditions, strict=True)]
            lacks = [c.lacks for c in rule.conditions]
            match, lack = f"{rule.name}_{side}", f"{rule.name}_lacks_{side}"
            lines.append(f"(define-fun {match} () Bool (and true {' '.join(holds)}))")
            lines.append(f"(define-fun {lack} () Bool (and (or false {' '.join(lacks)}) true {' '.join(may)}))")
            by_effect[rule.effect].append(match)
            by_effect["deny"].append(lack)
            if rule.effect == "hold":
                approvals[rule.approval].append(match)
        if self.limit:
            most, over = self.limit
            over_limit = f"(or full (> value {most * 10**6}))"
            by_effect["hold" if over else "deny"].append(over_limit)
            if over:
                approvals[over].append(over_limit)
        # A rule must match, besides the limit: what no rule matches is denied.
        matches = " ".join(["false"] + [f"{rule.name}_{side}" for rule in self.rules])
        any_of = {effect: f"(or {' '.join(causes)})" for effect, causes in by_effect.items()}
        lines.append(f"(define-fun deny_{side} () Bool (or {any_of['deny']} (not (or {matches}))))")
        lines.append(f"(define-fun hold_{side} () Bool (and (not deny_{side}) {any_of['hold']}))")
        lines.append(f"(define-fun allow_{side} () Bool (and (not deny_{side}) (not hold_{side})))")
        for name, causes in approvals.items():
            lines.append(f"(define-fun {name}_{side} () Bool (and hold_{side} (or {' '.join(causes)})))")
        return "\n".join(lines) + "\n"


def any_way(make: Callable[[str], str]) -> list[str]:
    """Return a formula for each way in which a destination is named."""
    return [make(way) for way in WAYS]


def destination(dice: Random) -> Condition:
    """Return a condition on the destination."""
    if dice.random() < 0.5:
        new, has_cooldown = dice.random() < 0.5, dice.random() < 0.5

        def is_wanted(way: str) -> str:
            known = f"(or (= paid_{way} 1) {'false' if has_cooldown else f'(= paid_{way} 3)'})"
            return f"(not (or {known} (= paid_{way} 2)))" if new else known

        fits = any_way(lambda way: f"(and (not (= {way} 0)) {is_wanted(way)})")
        each = any_way(lambda way: f"(or (= {way} 0) {is_wanted(way)})")
        lacks = "(or " + " ".join(any_way(lambda way: f"(and (not (= {way} 0)) (= paid_{way} 2))")) + ")"
        some = "(or " + " ".join(any_way(lambda way: f"(not (= {way} 0))")) + ")"
        return Condition(
            f"destination.new = {str(new).lower()}" + (', destination.cooldown = "24h"' if has_cooldown else ""),
            f"(and {some} (not {lacks}) {' '.join(each)})",
            f"(and (not {lacks}) (or {' '.join(fits)}))",
            lacks,
        )
    chosen = {way: dice.sample(sorted(names), dice.randint(1, len(names))) for way, names in WAYS.items()}
    ways = dice.sample(sorted(chosen), dice.randint(1, 2))
    has_expiring = "user" in ways and dice.random() < 0.5
    written: dict[str, str | list[str]] = {**chosen}
    if has_expiring:
        written["user"] = "@expiring"

    def is_in(way: str) -> str:
        if way == "user" and has_expiring:
            return f"(or (= user 1) (and (= user 2) {days_of([(date(1970, 1, 1), LAST_DAY)])}))"
        numbers = [WAYS[way][name] for name in chosen[way]] if way in ways else []
        return "(or false " + " ".join(f"(= {way} {number})" for number in numbers) + ")"

    if dice.random() < 0.4:
        out = ", ".join(f"{way} = {{ not_in = {json.dumps(written[way])} }}" for way in ways)
        some = "(or " + " ".join(any_way(lambda way: f"(not (= {way} 0))")) + ")"
        others = "(or false " + " ".join(any_way(lambda way: f"(and (not (= {way} 0)) (not {is_in(way)}))")) + ")"
        none = " ".join(any_way(lambda way: f"(not {is_in(way)})"))
        return Condition(f"destination = {{ {out} }}", f"(and {some} {none})", f"(or {others} (not {some}))")
    fields = ", ".join(f"{way} = {json.dumps(written[way])}" for way in ways)
    some = "(or " + " ".join(any_way(lambda way: f"(not (= {way} 0))")) + ")"
    each = any_way(lambda way: f"(or (= {way} 0) {is_in(way)})")
    return Condition(
        f"destination = {{ {fields} }}",
        f"(and {some} {' '.join(each)})",
        "(or " + " ".join(is_in(way) for way in WAYS) + ")",
    )


def alike(text: str, formula: str) -> Condition:
    """Return a condition that means the same for every effect."""
    return Condition(text, formula, formula)


def days_of(dates: list[tuple[date, date]]) -> str:
    """Return the formula for: the day is in one of these ranges, their ends included."""
    first = date(1970, 1, 1)
    ranges = (f"(<= {(begin - first).days} day {(end - first).days})" for begin, end in dates)
    return f"(or {' '.join(ranges)})"


def on_dates(dice: Random) -> Condition:
    """Return a condition on dates, alone or with weekdays."""
    begins = [date(2026, 1, 1) + timedelta(days=dice.randrange(40)) for _ in range(dice.randint(1, 3))]
    dates = [(begin, begin + timedelta(days=dice.choice([0, 0, 1, 5, 20]))) for begin in begins]
    texts = json.dumps(sorted({str(begin) if begin == end else f"[{begin}, {end}]" for begin, end in dates}))
    if dice.random() < 0.4:
        return alike(f'date = {{ not_in = {texts} }}, zone = "UTC"', f"(not {days_of(dates)})")
    if dice.random() < 0.4:
        days = dice.sample(range(7), dice.randint(1, 3))
        return alike(
            f'date = {texts}, weekday = {json.dumps([DAYS[day] for day in days])}, zone = "UTC"',
            f"(and {days_of(dates)} (or {' '.join(f'(= weekday {day})' for day in days)}))",
        )
    return alike(f'date = {texts}, zone = "UTC"', days_of(dates))


def at_night(end: int, begin: int) -> Condition:
    """Return a condition on hours that may go over midnight."""
    if begin == end:
        begin, end = 22, 6
    word = "or" if begin > end else "and"
    return alike(f'hour = "[{begin}, {end})", zone = "UTC"', f"({word} (<= {begin} hour) (< hour {end}))")


def conditions(dice: Random) -> list[Condition]:
    """Return some conditions, of each kind at most one."""
    low, high = sorted(dice.sample([0, 10, 50, 100, 500, 1000], 2))
    least, most = sorted(dice.sample([0, 1, 2], 2))
    days = dice.sample(range(7), dice.randint(1, 4))
    begin, end = sorted(dice.sample(range(25), 2))
    kinds: list[Callable[[], Condition]] = [
        lambda: dice.choice(
            [alike('environment = "sandbox"', "sandbox"), alike('environment = "production"', "(not sandbox)")]
        ),
        lambda: dice.choice(
            [
                alike('caller = "main:a"', "(= caller 1)"),
                alike('caller = ["main:a", "console:b"]', "(or (= caller 1) (= caller 2))"),
                alike('issuer = "main"', "(or (= caller 1) (= caller 9))"),
            ]
        ),
        lambda: dice.choice(
            [
                alike('role = "r"', "role_r"),
                alike('role = "s"', "role_s"),
                alike('role = ["r", "s"]', "(or role_r role_s)"),
                alike('role = { not_in = "r" }', "(not role_r)"),
            ]
        ),
        lambda: destination(dice),
        lambda: dice.choice(
            [
                Condition(
                    'chain = "BASE"',
                    "(and (or (= source_chain 1) (= destination_chain 1)) (or (= source_chain 0) (= source_chain 1)) "
                    "(or (= destination_chain 0) (= destination_chain 1)))",
                    "(or (= source_chain 1) (= destination_chain 1))",
                ),
                alike('source.chain = "BASE"', "(= source_chain 1)"),
                Condition(
                    'chain = { not_in = "BASE" }',
                    "(and (or (not (= source_chain 0)) (not (= destination_chain 0))) (not (= source_chain 1)) "
                    "(not (= destination_chain 1)))",
                    "(not (and (or (= source_chain 1) (= destination_chain 1)) "
                    "(or (= source_chain 0) (= source_chain 1)) (or (= destination_chain 0) (= destination_chain 1))))",
                ),
            ]
        ),
        lambda: dice.choice(
            [
                alike(f'amount = "({low}, {high}] USD"', f"(and (> value {low * 10**6}) (<= value {high * 10**6}))"),
                alike(f'amount = "({low}, inf) USD"', f"(> value {low * 10**6})"),
            ]
        ),
        lambda: Condition(
            f'price = "[{least}, {most})"',
            f"(and (<= {least * 10**8} price) (< price {most * 10**8}))",
            f"(and (<= {least * 10**8} price) (< price {most * 10**8}))",
            "(= price (- 2))",
        ),
        lambda: dice.choice(
            [
                alike('body = { "/cancelAfterSeconds" = "present" }', "(not (= seconds 0))"),
                alike('body = { "/cancelAfterSeconds" = "absent" }', "(= seconds 0)"),
                alike('body = { "/cancelAfterSeconds" = { in = [60, 90] } }', "(or (= seconds 60) (= seconds 90))"),
                alike('body = { "/cancelAfterSeconds" = { equals = 60 } }', "(= seconds 60)"),
                Condition(
                    'body = { "/cancelAfterSeconds" = { not_in = [60] } }',
                    "(and (not (= seconds 0)) (not (= seconds 60)))",
                    "(not (= seconds 60))",
                ),
            ]
        ),
        lambda: dice.choice(
            [
                at_night(begin, end % 24),
                on_dates(dice),
                alike(
                    f'weekday = {json.dumps([DAYS[day] for day in days])}, hour = "[{begin}, {end})", zone = "UTC"',
                    f"(and (or {' '.join(f'(= weekday {day})' for day in days)}) (<= {begin} hour) (< hour {end}))",
                ),
            ]
        ),
    ]
    return [make() for make in dice.sample(kinds, dice.choice([0, 1, 1, 2, 2, 3]))]


def random_rule(name: str, dice: Random) -> Rule:
    """Return a rule."""
    return Rule(name, dice.choice(["allow", "allow", "hold", "deny"]), dice.choice(["one", "dual"]), conditions(dice))


def random_set(dice: Random) -> PolicySet:
    """Return a set."""
    rules = [random_rule(f"r{at}", dice) for at in range(dice.randint(2, 5))]
    limit = (dice.choice([40, 100, 700]), dice.choice(["", "one"])) if dice.random() < 0.4 else None
    invariants = [
        Invariant(f"i{at}", dice.choice(["never", "always"]), dice.choice(["allow", "hold", "deny"]), conditions(dice))
        for at in range(3)
    ]
    return PolicySet(rules, limit, invariants)


def changed(old: PolicySet, dice: Random) -> PolicySet:
    """Return a set with a change or two."""
    rules = list(old.rules)
    at = dice.randrange(len(rules))
    match dice.randrange(4):
        case 0:
            rules.append(random_rule("more", dice))
        case 1:
            del rules[at]
        case 2:
            rules[at] = random_rule(rules[at].name, dice)
        case _:
            rules[at] = Rule(rules[at].name, dice.choice(["allow", "hold", "deny"]), "one", rules[at].conditions)
    limit = old.limit if dice.random() < 0.7 else (dice.choice([30, 200]), "")
    return PolicySet(rules, limit)


@dataclass
class Claim:
    """A formula of which it is claimed that a request meets it, or that none does."""

    words: str
    formula: str
    is_met: bool


def request_of(example: str) -> str:
    """Return the formula for the request of an example."""
    given = tomllib.loads(f"x = {{ {example} }}")["x"]
    parts = []

    def equals(name: str, number: int) -> None:
        parts.append(f"(= {name} {number if number >= 0 else f'(- {-number})'})")

    parts.append("sandbox" if given.get("environment") == "sandbox" else "(not sandbox)")
    caller = given["caller"]
    equals("caller", CALLERS.get(caller, 9 if caller.startswith("main:") else 8))
    roles = given.get("role", [])
    parts.extend(f"role_{role}" if role in roles else f"(not role_{role})" for role in ("r", "s"))
    source, there = given.get("source", {}), given.get("destination", {})
    for way, names in WAYS.items():
        name = there.get(way)
        equals(way, 0 if name is None else names.get(name.lower(), 9))
    for side, name in ((source, "source_chain"), (there, "destination_chain")):
        chain = side.get("chain")
        equals(name, 0 if chain is None else 1 if chain == "BASE" else 9)
    equals("value", int(Decimal(source["amount"]) * 10**6))
    price = given.get("price")
    equals("price", -1 if price is None else -2 if price == "?" else int(Decimal(price) * 10**8))
    seconds = given.get("body", {}).get("/cancelAfterSeconds")
    equals("seconds", 0 if seconds is None else seconds if seconds in (60, 90) else 9)
    time = datetime.fromisoformat(given.get("time", "2026-01-07T12:00:00+00:00"))
    equals("weekday", time.weekday())
    equals("hour", time.hour)
    equals("day", (time.date() - date(1970, 1, 1)).days)
    # An example says that a destination was never paid before, or is silent: then it was, or it is not known.
    paid, lately = given.get("paid_before", True), "first_paid" in given
    for way in WAYS:
        known = f"(not (= paid_{way} 0))" if lately else f"(or (= paid_{way} 1) (= paid_{way} 2))"
        parts.append(f"(or (= {way} 0) {known if paid else 'true'})")
    parts.append("full" if given.get("full") else "(not full)")
    return f"(and {' '.join(parts)})"


KNOWN = "(and (not (= price (- 2))) " + " ".join(any_way(lambda way: f"(not (= paid_{way} 2))")) + ")"


class Analysis:
    """Asks `sluice policy`."""

    def __init__(self, sluice: str, folder: Path) -> None:
        """`folder` holds the sets."""
        self.sluice = sluice
        self.folder = folder

    def write(self, name: str, text: str) -> str:
        """Write a set; return its folder."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "rules.toml").write_text(text)
        return str(folder)

    def ask(self, *words: str) -> Any:
        """Run a command, and return its answer."""
        run = subprocess.run(
            [self.sluice, "policy", *words, "--output", "json"], capture_output=True, text=True, timeout=120
        )
        if run.returncode not in (0, 3):
            raise RuntimeError(f"sluice policy {' '.join(words)}: {run.stderr}")
        return json.loads(run.stdout)


def of_invariants(policies: PolicySet, findings: list[dict[str, Any]]) -> Iterator[Claim]:
    """Return a claim for each invariant: proved, or broken by its example."""
    for invariant in policies.invariants:
        permits = (invariant.claim, invariant.effect) in (("always", "allow"), ("never", "deny"))
        asked = [c.permits if permits else c.restricts for c in invariant.conditions]
        has = f"{invariant.effect}_a"
        forbidden = has if invariant.claim == "never" else f"(not {has})"
        may_deny = (invariant.effect == "deny") == (invariant.claim == "never")
        may_allow = (invariant.effect == "allow") == (invariant.claim == "never")
        facts = KNOWN if may_deny else "true"
        windows = "true" if may_deny or not may_allow else "(not full)"
        breaks = f"(and {forbidden} {facts} {windows} true {' '.join(asked)})"
        told = [finding for finding in findings if finding["text"].startswith(f"`{invariant.name}` ")]
        if not told:
            yield Claim(f"{invariant.name} is proved", breaks, False)
        elif "but this request is" in told[0]["text"]:
            example = request_of(told[0]["example"])
            yield Claim(f"{invariant.name} is broken by {told[0]['example']}", f"(and {breaks} {example})", True)


def of_rules(policies: PolicySet, findings: list[dict[str, Any]]) -> Iterator[Claim]:
    """Return a claim for each rule that is said to have no effect."""
    for finding in findings:
        name = finding["text"].split("`")[1]
        rule = next((rule for rule in policies.rules if rule.name == name), None)
        if rule is None:
            continue
        match, text = f"(and {name}_a (not full))", finding["text"]
        if "matches no request" in text:
            yield Claim(text, match, False)
        elif "has no effect" in text or "contradict" in text:
            yield Claim(text, f"(and {match} {rule.effect}_a)", False)
            by = text.partition("because `")[2].partition("`")[0]
            if by:
                yield Claim(text, f"(and {match} (not {by}_a))", False)
        elif "changes nothing" in text:
            same = " ".join(f"(= {word}_a {word}_b)" for word in ("allow", "hold", "deny", "one", "dual"))
            yield Claim(text, f"(and {match} (not (and {same})))", False)


def of_difference(told: dict[str, Any]) -> Iterator[Claim]:
    """Return claims for a difference: its direction, and for each change its amounts and its example."""
    rank = {"allow": 0, "hold": 1, "deny": 2}
    pairs = [(old, new) for old in rank for new in rank if old != new]
    other = "(and (not full) (or " + " ".join(f"(and {old}_a {new}_b)" for old, new in pairs) + "))"
    better = "(and (not full) (or " + " ".join(f"(and {o}_a {n}_b)" for o, n in pairs if rank[n] < rank[o]) + "))"
    people = "(and (not full) hold_a hold_b (not (and (= one_a one_b) (= dual_a dual_b))))"
    if told["direction"] == "same":
        yield Claim("the sets are the same", f"(or {other} {people})", False)
    if told["direction"] == "onlyTightens":
        yield Claim("it only tightens", better, False)
    seen = set()
    for change in told["changes"]:
        old, new = change["before"]["effect"], change["then"]["effect"]
        if old == new:
            continue
        seen.add((old, new))
        pair = f"(and {old}_a {new}_b (not full))"
        yield Claim(f"{old} to {new}: {change['example']}", f"(and {pair} {request_of(change['example'])})", True)
        extent = change["extent"]
        if extent["largest"]:
            yield Claim(f"largest: {extent['largest']}", f"(and {pair} {request_of(extent['largest'])})", True)
        ranges = [(one["fromMicroUsd"], one["toMicroUsd"] or MAX_VALUE) for one in extent["amounts"]]
        within = [f"(<= {least} value {most})" for least, most in ranges]
        if extent["complete"]:
            outside = f"(not (or false {' '.join(within)}))"
            yield Claim(f"{old} to {new} only of {extent['words']}", f"(and {pair} {outside})", False)
        for end in {end for one in ranges for end in one}:
            yield Claim(f"{old} to {new} of {end}", f"(and {pair} (= value {end}))", True)
    if told["direction"] != "notProved":
        for old, new in pairs:
            if (old, new) not in seen:
                yield Claim(f"nothing changes from {old} to {new}", f"(and {old}_a {new}_b (not full))", False)


def of_table(told: dict[str, Any]) -> Iterator[Claim]:
    """Return claims for the largest amounts that pass with nobody, with one person, and with three."""
    with_people = {0: "allow_a", 1: "(and one_a (not dual_a))", 3: "dual_a"}
    rows = next(one["rows"] for one in told["operations"] if one["operation"] == "createSwap")
    for at, people in enumerate(told["people"]):
        figures = [row["most"][at] for row in rows]
        if not all(figure["exact"] for figure in figures):
            continue
        passing = [figure["microUsd"] or MAX_VALUE for figure in figures if figure["passes"]]
        passes = f"(and {with_people[people]} (not full))"
        # Rows are of requests that name their destination in one way; others pass no more, and may pass less.
        one_way = " ".join(
            f"(=> (not (= {way} 0)) (and {' '.join(f'(= {other} 0)' for other in WAYS if other != way)}))"
            for way in WAYS
        )
        one_way = f"(and {one_way})"
        most = max(passing, default=0)
        one_role = "(not (and role_r role_s))"
        yield Claim(f"with {people} at most {most}", f"(and {passes} {one_way} {one_role} (> value {most}))", False)
        if passing:
            yield Claim(f"with {people} {most} passes", f"(and {passes} (= value {most}))", True)


def smt(first: PolicySet, second: PolicySet, claims: list[Claim]) -> str:
    """Write claims about two sets, the sides `a` and `b`, as one SMT-LIB script."""
    asked = "".join(f"(push 1)\n(assert {claim.formula})\n(check-sat)\n(pop 1)\n" for claim in claims)
    return f"{REQUEST}{first.formulas('a')}{second.formulas('b')}{asked}"


def ask_z3(script: str) -> list[str]:
    """Return the results of z3."""
    run = subprocess.run([str(Z3), "-in"], input=script, capture_output=True, text=True, timeout=300)
    return run.stdout.split()


def ask_cvc5(script: str) -> list[str]:
    """Return the results of cvc5."""
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("incremental", "true")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, script, "claims")
    said: list[str] = []
    while True:
        command = parser.nextCommand()
        if command.isNull():
            return "".join(said).split()
        said.append(str(command.invoke(solver, parser.getSymbolManager())))


def claims_of(sluice: str, seed: int) -> list[tuple[str, str, list[Claim]]]:
    """Return the scripts of a random set, each with its claims and the sets as text."""
    dice = Random(seed)
    first = random_set(dice)
    second = changed(first, dice)
    scripts = []
    with tempfile.TemporaryDirectory() as folder:
        analysis = Analysis(sluice, Path(folder))
        claimed = analysis.ask("check", analysis.write("claimed", first.toml(True)))
        plain = analysis.write("plain", first.toml(False))
        other = analysis.write("other", second.toml(False))
        odd = [
            finding for finding in analysis.ask("check", plain)["findings"] if finding.get("text", "").startswith("`")
        ]
        claims = list(of_invariants(first, claimed["findings"]))
        claims += of_difference(analysis.ask("diff", plain, other))
        claims += of_table(analysis.ask("table", plain))
        scripts.append((first.toml(True) + "\n--- then\n" + second.toml(False), smt(first, second, claims), claims))
        for finding in odd:
            name = finding["text"].split("`")[1]
            about = list(of_rules(first, [finding]))
            scripts.append((first.toml(False), smt(first, first.without(name), about), about))
    return scripts


def check(sluice: str, seed: int) -> tuple[Counter[str], list[str]]:
    """Check the claims about one random set; return counts and disagreements."""
    counts: Counter[str] = Counter()
    wrong = []
    for text, script, claims in claims_of(sluice, seed):
        expected = ["sat" if claim.is_met else "unsat" for claim in claims]
        for name, ask in (("z3", ask_z3), ("cvc5", ask_cvc5)):
            found = ask(script)
            if len(found) != len(expected):
                wrong.append(f"seed {seed}: {name} answers {found} to {len(expected)} claims\n{script}")
            for claim, wanted, result in zip(claims, expected, found, strict=False):
                counts[f"{name} {wanted}"] += 1
                if result != wanted:
                    wrong.append(f"seed {seed}: {name} says {result}, but the analysis claims: {claim.words}\n{text}")
    return counts, wrong


def main() -> int:
    """Check random sets."""
    parser = argparse.ArgumentParser(description="Has public solvers decide the claims of the policy analysis.")
    parser.add_argument("sluice")
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    sets = LONG_SETS if arguments.long else USUAL_SETS
    report = Report()
    counts: Counter[str] = Counter()
    print(f"seeds {SEED} to {SEED + sets - 1}")
    with ThreadPoolExecutor(max_workers=2) as pool:
        for found, wrong in pool.map(lambda seed: check(arguments.sluice, seed), range(SEED, SEED + sets)):
            counts += found
            for text in wrong:
                report.check("the solvers agree", text)
    for name in ("z3 sat", "z3 unsat", "cvc5 sat", "cvc5 unsat"):
        print(f"{name}: {counts[name]}")
        report.check_that(f"{name}: {counts[name]}", counts[name] >= sets, "too few claims: the run shows nothing")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
