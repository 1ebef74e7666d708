"""Verifies a gate's witnessed journal in another language than the gate's: as an auditor, and as a log that cheats.

Usage: `python tests/tools/witnessed.py SLUICE`.

A gate makes payments, and two witnesses sign its checkpoints. `tlog.py`, which follows C2SP's specifications, verifies
the signatures, every tile and every entry, and that each checkpoint has all lines of the one before. Then requests of a
cheating log reach a witness. Copies of the journal are cut, rewritten and changed, and checkpoints are forged: both
this tool and `sluice audit verify` must find that. At last the gate is killed, and its tree is deleted and damaged: the
gate must make it again from the journal, and the witnesses must sign on.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from gate import ADDRESS, LogLine, run_program, start_simulator, wait_until
from journals import (
    ATTACKS,
    DAMAGES,
    Attack,
    Auditor,
    Verdict,
    as_listing,
    change_salt,
    check_chain,
    check_tree,
    forge_listings,
    log_name,
    own_checkpoints,
    read_lines,
    salted_entries,
    size_without_checkpoint,
    tree_folder,
    verify_by_sluice,
)
from report import Report, parse_arguments
from swaps import KillableGate, Swaps, call_until_known, run_together
from tlog import (
    DASH,
    LOG_KEY,
    TILE_WIDTH,
    Checkpoint,
    Key,
    Note,
    Signature,
    TileFolder,
    TlogError,
    add_request,
    encode_base64,
    hash_leaf,
    hash_tree,
    is_consistent,
    parse_key,
    parse_note,
    prove_consistency,
    read_checkpoint,
    read_public_key,
    sha256,
    sign_note,
    verify_note,
)

SWAPS, CALLERS, KILLS = 40, 8, 3
PATIENCE_SECONDS = 20
SIZE_TYPE = "text/x.tlog.size"


class Answer(NamedTuple):
    """A witness's answer."""

    status: int
    kind: str | None
    body: str


class Witness(NamedTuple):
    """A running witness."""

    address: str
    key: Key
    # The key as it is given to gates and auditors.
    key_text: str

    def add(self, body: str | bytes) -> Answer:
        """Asks for a signature."""
        return self.ask("POST", "/add-checkpoint", body.encode() if isinstance(body, str) else body)

    def ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        connection = HTTPConnection(self.address, timeout=10)
        connection.request(method, path, body)
        response = connection.getresponse()
        return Answer(response.status, response.headers["Content-Type"], response.read().decode())

    def listing(self) -> str:
        """Returns the checkpoints that it signed last, as lines of JSON."""
        return self.ask("GET", "/checkpoints").body


@contextmanager
def start_witness(binary: str, home: Path, name: str, logs: Sequence[str] = ("log", "another")) -> Iterator[Witness]:
    """Runs a witness with the keys of these logs; one of the same name before has ended."""
    key = home / f"{name}.pem"
    if not key.exists():
        make_key(binary, key)
    files: list[str | Path] = ["--key", key, "--folder", home / name]
    for log in logs:
        files += ["--log-key", home / f"{log}.pem.pub"]
    with run_program([binary, "witness", "--name", name, *files, "--listen", "127.0.0.1:0"]) as program:

        def is_key(line: LogLine) -> bool:
            return str(line.get("message")).startswith(f"{name}+")

        output = program.wait_for(is_key)
        key_text = next(line["message"] for line in output if is_key(line))
        yield Witness(ADDRESS.findall(json.dumps(output[0]))[0], parse_key(key_text), key_text)


def make_key(binary: str, file: Path) -> None:
    subprocess.run([binary, "audit", "key", file], capture_output=True, check=True)


class Scene:
    """A gate with its witnesses, and the auditor."""

    def __init__(self, binary: str, upstream: str, home: Path, witnesses: Sequence[Witness], report: Report) -> None:
        self.binary, self.upstream, self.home, self.report = binary, upstream, home, report
        self.witnesses = witnesses
        self.begin = time.time()
        folder = home / "gate"
        folder.mkdir()
        shutil.copy(home / "log.pem", folder)
        sections = "".join(
            f'[witness.{name}]\nurl = "http://{witness.address}"\nkey = "{witness.key_text}"\n'
            for name, witness in zip(("first", "second"), witnesses, strict=True)
        )
        audit = '\n[audit]\ncheckpoint_key = { file = "log.pem" }\ncheckpoint_seconds = 1\n'
        self.gate = KillableGate(binary, upstream, folder, audit + sections)
        self.folder = self.gate.audit_folder

    @cached_property
    def other_key(self) -> Key:
        """Returns a key that no witness knows, with the name of the log."""
        return Key(self.auditor.log_key.name, LOG_KEY, read_public_key(self.home / "other.pem.pub"))

    @cached_property
    def auditor(self) -> Auditor:
        """Returns what an auditor knows, of a gate that was started."""
        log_key = Key(log_name(self.folder), LOG_KEY, read_public_key(self.home / "log.pem.pub"))
        return Auditor(log_key, [witness.key for witness in self.witnesses], self.begin)

    def pay(self, name: str, count: int = SWAPS) -> None:
        swaps = Swaps(count, name)
        run_together([lambda: call_until_known([self.gate], swaps, self.upstream)] * CALLERS, swaps)
        unknown = [request_id for request_id in swaps.ids if not swaps.acknowledged.get(request_id)]
        self.report.check(f"{name}: all payments are made", "; ".join([*swaps.faults, *unknown][:3]))

    def is_witnessed(self) -> bool:
        file = tree_folder(self.folder) / "checkpoint"
        return file.is_file() and read_checkpoint(file.read_text()).size == len(read_lines(self.folder))

    def check(self, name: str) -> Checkpoint:
        """Waits until the witnesses signed all lines, and verifies the checkpoint, the tree and the journal."""
        if not wait_until(self.is_witnessed, PATIENCE_SECONDS):
            told = [line for line in self.gate.logs[-1] if line.get("level") in ("WARN", "ERROR")]
            raise RuntimeError(f"{name}: the witnesses did not sign all lines: {told[-5:]}")
        published = self.auditor.published(self.folder)
        self.report.check_that(f"{name}: the log and both witnesses signed", published.size > 0, "an empty tree")
        lines = read_lines(self.folder)
        faults = check_chain(lines) + check_tree(self.folder, published, salted_entries(self.folder, lines))
        self.report.check(f"{name}: the tree has every line, and the checkpoint's root", "; ".join(faults[:3]))
        self.report.check_that(f"{name}: the note has three lines", not published.extension, published.extension)
        faults = self.auditor.audit(self.folder, self.listings())
        self.report.check(f"{name}: the witnesses saw the same", "; ".join(faults[:3]))
        faults = self.auditor.check_kept(self.folder)
        self.report.check(f"{name}: the gate's own checkpoints agree with its files", "; ".join(faults[:3]))
        return published

    def check_growth(self, name: str, old: Checkpoint, new: Checkpoint) -> None:
        """Verifies that the newer checkpoint has all lines of the older one: by a proof, and by both roots."""
        tiles = TileFolder(tree_folder(self.folder), new.size)
        proof = prove_consistency(tiles.subtree, old.size, new.size)
        holds = old.size < new.size and is_consistent((old.size, old.root), (new.size, new.root), proof)
        self.report.check_that(f"{name}: the proof that the log only grew holds", holds, (old.size, new.size))
        changed = [sha256(b"other"), *proof[1:]]
        holds = is_consistent((old.size, old.root), (new.size, new.root), changed)
        self.report.check_that(f"{name}: a changed proof does not hold", not holds, "it does")
        leaves = [hash_leaf(entry) for entry in tiles.entries()]
        roots = (hash_tree(leaves[: old.size]), hash_tree(leaves))
        self.report.check_that(f"{name}: both roots are those of the entries", roots == (old.root, new.root), roots)

    def listings(self) -> list[str]:
        return [witness.listing() for witness in self.witnesses]

    def ask(self, witness: Witness, name: str, what: str, body: str, status: int) -> str:
        """Asks a witness for a signature, and checks the status of its answer."""
        answer = witness.add(body)
        self.report.check_that(f"{name}: {what}", answer.status == status, f"{answer}, not {status}")
        return answer.body


def ask_new_witness(scene: Scene, old: Checkpoint, new: Checkpoint) -> None:
    """Brings two checkpoints to a witness that the gate does not know, with this tool's own proof."""
    key, begin = scene.auditor.log_key, int(scene.begin)
    another = Key(key.name, LOG_KEY, read_public_key(scene.home / "another.pem.pub"))
    by_another = sign_note(new.note.text, another, scene.home / "another.pem")
    by_unknown = sign_note(new.note.text, scene.other_key, scene.home / "other.pem")
    own = next(one for one in new.note.signatures if one.key_id == key.key_id())
    wrong = Signature(key.name, key.key_id(), bytes(64))
    proof = prove_consistency(TileFolder(tree_folder(scene.folder), new.size).subtree, old.size, new.size)
    name = "w3.example"

    with start_witness(scene.binary, scene.home, name) as witness:
        asked = partial(scene.ask, witness, "a new witness")
        asked("does not know the log by an unknown key", add_request(0, by_unknown), 404)
        asked("no proof is due from nothing", add_request(0, str(old.note), [sha256(b"")]), 422)
        asked("refuses a wrong signature", add_request(0, str(Note(old.note.text, [wrong]))), 403)
        scene.report.check_that("a new witness: has signed nothing", not witness.listing(), witness.listing())
        lines = asked("signs the first checkpoint", add_request(0, str(old.note)), 200)
        at = verify_note(parse_note(f"{old.note.text}\n{lines}"), witness.key) or 0
        scene.report.check_that("a new witness: signs now", begin <= at <= time.time(), at)
        asked("refuses no proof", add_request(old.size, str(new.note)), 422)
        asked("refuses half a proof", add_request(old.size, str(new.note), proof[:-1]), 422)
        asked("refuses a longer proof", add_request(old.size, str(new.note), [*proof, sha256(b"")]), 422)
        asked("refuses a proof in another order", add_request(old.size, str(new.note), proof[::-1]), 422)
        lines = asked("signs what has all lines", add_request(old.size, str(new.note), proof), 200)
        verify_note(parse_note(f"{new.note.text}\n{lines}"), witness.key)
        size = asked("keeps the newer checkpoint", add_request(old.size, str(old.note)), 409)
        scene.report.check_that("a new witness: tells its size", size == f"{new.size}\n", size)
        asked("does not go back", add_request(new.size, str(old.note)), 400)
        asked("refuses the key of another log", add_request(new.size, by_another), 403)
        twice = str(Note(new.note.text, [own, wrong]))
        asked("refuses a second, wrong signature of the log", add_request(new.size, twice), 403)
        unknown = [Signature(key.name, os.urandom(4), os.urandom(64)) for _ in range(63)]
        asked("signs among unknown ones", add_request(new.size, str(Note(new.note.text, [own, *unknown]))), 200)
        note = json.loads(witness.listing())["checkpoint"]
        ids = {one.key_id for one in parse_note(note).signatures}
        holds = ids == {key.key_id(), witness.key.key_id()}
        scene.report.check_that("a new witness: keeps the signatures that it verified", holds, f"it has {len(ids)}")
        answer = witness.ask("GET", f"/{sha256(key.name.encode()).hex()}/checkpoint")
        scene.report.check_that(
            "a new witness: gives the checkpoint", (answer.status, answer.body) == (200, note), answer
        )
        answer = witness.ask("GET", f"/{sha256(b'another log').hex()}/checkpoint")
        scene.report.check_that("a new witness: has no other checkpoint", answer.status == 404, answer)
        words: list[str | Path] = ["--name", name, "--key", scene.home / f"{name}.pem", "--show-key"]
        shown = subprocess.run([scene.binary, "witness", *words], capture_output=True, text=True, check=False)
        holds = (shown.returncode, shown.stdout) == (0, f"{witness.key_text}\n")
        scene.report.check_that("a new witness: its key is shown", holds, shown)
    with start_witness(scene.binary, scene.home, name) as witness:
        asked = partial(scene.ask, witness, "a witness that began again")
        asked("keeps its checkpoint", add_request(0, str(old.note)), 409)
        asked("keeps the log's key", add_request(new.size, by_another), 403)
    with start_witness(scene.binary, scene.home, name, ["another"]) as witness:
        asked = partial(scene.ask, witness, "a witness that lost a key")
        asked("refuses the lost key", add_request(new.size, str(new.note)), 403)
        asked("takes a key that it knows", add_request(new.size, by_another), 200)


def cheat(scene: Scene, newest: Checkpoint) -> None:
    """Asks a witness as a log that cheats, and as a stranger."""
    witness, size, key, other = scene.witnesses[0], newest.size, scene.auditor.log_key, scene.other_key
    origin, _, root, rest = newest.note.text.split("\n", 3)
    log_pem = scene.home / "log.pem"
    note, forged = str(newest.note), encode_base64(sha256(b"forged"))
    proof = prove_consistency(TileFolder(tree_folder(scene.folder), size).subtree, size // 2, size)

    def signed(size: int, root: str, by: Key = key, private: str = "log.pem") -> str:
        return sign_note(f"{by.name}\n{size}\n{root}\n{rest}", by, scene.home / private)

    own = f"{DASH}{origin} "
    at = note.index(own) + len(own) + 20
    damaged = note[:at] + ("A" if note[at] != "A" else "B") + note[at + 1 :]
    unsigned = f"{newest.note.text}\n" + "".join(
        f"{line}\n" for line in note.split("\n\n")[1].splitlines() if not line.startswith(own)
    )
    stranger, renamed = (
        Key("example.com/log", LOG_KEY, key.public),
        Key("sluice/gate/" + 16 * "0", LOG_KEY, other.public),
    )
    cases: list[tuple[str, int, str | bytes]] = [
        ("an older size", 409, add_request(size - 1, note)),
        ("no size", 409, add_request(0, note)),
        ("a fork of the same size", 422, add_request(size, signed(size, forged))),
        ("a fork that is longer", 422, add_request(size, signed(size + 1, forged))),
        ("a fork with another tree's proof", 422, add_request(size, signed(size + 1, forged), proof)),
        ("another key with the log's name", 403, add_request(size, signed(size, root, other, "other.pem"))),
        ("a damaged signature of the log", 403, add_request(size, damaged)),
        ("only witnesses signed", 403, add_request(size, unsigned)),
        ("a log of another kind", 404, add_request(0, signed(size, root, stranger))),
        ("an unknown log", 404, add_request(0, signed(size, root, renamed, "other.pem"))),
        ("a note with one more line", 400, add_request(size, sign_note(f"{newest.note.text}more\n", key, log_pem))),
        ("an old size above the new one", 400, add_request(size + 1, note)),
        ("an old size with a zero before it", 400, f"old 0{size}\n\n{note}"),
        ("a negative size", 400, f"old -1\n\n{note}"),
        ("no old size", 400, f"\n{note}"),
        ("too long a proof", 400, add_request(size, note, [sha256(b"")] * 64)),
        ("a proof that is not base64", 400, f"old {size}\n!\n\n{note}"),
        ("no checkpoint", 400, f"old {size}\n\n"),
        ("a checkpoint without signatures", 400, f"old {size}\n\n{newest.note.text}"),
        ("garbage", 400, "garbage"),
        ("bytes that are not text", 400, b"\xff\xfe\x00"),
        ("nothing", 400, b""),
    ]
    for name, status, body in cases:
        answer = witness.add(body)
        scene.report.check_that(f"a witness is asked: {name}", answer.status == status, f"{answer}, not {status}")
        if status == 409:
            holds = (answer.kind, answer.body) == (SIZE_TYPE, f"{size}\n")
            scene.report.check_that(f"a witness tells its size: {name}", holds, answer)
    lines = witness.add(add_request(size, note)).body
    at_time = verify_note(parse_note(f"{newest.note.text}\n{lines}"), witness.key)
    scene.report.check_that("after all that a witness signs the same checkpoint", bool(at_time), lines)
    print(f"witness: {len(cases)} wrong requests")


def attack(scene: Scene, first: Checkpoint, newest: Checkpoint) -> None:
    """Attacks copies of the journal, and has two programs verify each against what the witnesses say."""
    report, listings = scene.report, scene.listings()

    def check(attack: Attack, listings: Sequence[str] = listings, more: Sequence[str] = ()) -> Verdict:
        name, change, begin, finding = attack
        copy = scene.home / "copy"
        shutil.copytree(scene.folder, copy)
        change(copy)
        faults = scene.auditor.audit(copy, listings)
        words: list[str | Path] = ["--public-key", scene.home / "log.pem.pub", *more]
        for witness, listing in zip(scene.witnesses, listings, strict=True):
            file = scene.home / f"{witness.key.name}.jsonl"
            file.write_text(listing, encoding="utf-8")
            words += ["--checkpoints", file, "--witness-key", witness.key_text]
        verdict = verify_by_sluice(scene.binary, copy, words)
        shutil.rmtree(copy)
        if begin:
            found = any(fault.startswith(f"{begin}: ") for fault in faults)
            report.check_that(f"{name}: this tool finds it", found, faults)
        else:
            report.check(f"{name}: this tool finds nothing", "; ".join(faults[:3]))
        if finding:
            holds = verdict.code == 3 and finding in verdict.findings
            report.check_that(f"{name}: `sluice audit verify` finds `{finding}`", holds, verdict)
        else:
            report.check_that(f"{name}: `sluice audit verify` finds nothing", not verdict.findings, verdict)
        return verdict

    def check_honest(name: str, change: Callable[[Path], object], listings: Sequence[str], lines: int) -> None:
        """Verifies a copy that is whole, up to a number of lines."""
        verdict = check(Attack(name, change, "" if all(listings) else "unwitnessed", ""), listings)
        holds = (verdict.code, verdict.witnessed) == (0 if lines else 3, lines)
        report.check_that(f"{name}: {lines} lines are witnessed", holds, verdict)

    def forget(folder: Path) -> None:
        own_checkpoints(folder).unlink()

    older = as_listing(Note(first.note.text, first.note.signatures))
    check_honest("an honest copy", lambda _: None, listings, newest.size)
    check_honest("a copy without the gate's own checkpoints", forget, listings, newest.size)
    check_honest("a witness that saw less", forget, [older, listings[1]], first.size)
    check_honest("a witness that saw nothing", forget, ["", listings[1]], 0)
    for one in ATTACKS:
        check(one)
    between = size_without_checkpoint(scene.folder, newest.size)
    forgeries = forge_listings(scene.home, scene.auditor, newest.size, between, listings[0])
    for name, listing, begin, finding in forgeries:
        check(Attack(name, lambda _: None, begin, finding), [listing, listings[1]])
    former = check(Attack("a former log", change_salt, "root", ""), more=["--former-log", scene.auditor.log_key.name])
    report.check_that("a former log: no witness saw the new one", (former.code, former.witnessed) == (3, 0), former)
    alone = verify_by_sluice(scene.binary, scene.folder, ["--witness-key", scene.witnesses[0].key_text])
    report.check_that("no key of a witness without one of the log", alone.code == 2, alone)
    print(f"copies: {len(ATTACKS)} attacks, {len(forgeries)} forged listings")


def run(scene: Scene) -> None:
    """Goes through all parts, one after the other."""
    scene.pay("first")
    first = scene.check("first")
    # The tree gets a full tile, and a second level.
    scene.pay("second", 3 * SWAPS)
    second = scene.check("second")
    scene.check_growth("second", first, second)
    scene.report.check_that("second: the tree has two levels", second.size > TILE_WIDTH, second.size)
    ask_new_witness(scene, first, second)
    cheat(scene, second)
    attack(scene, first, second)
    for turn in range(KILLS):
        scene.pay(f"killed-{turn}", 10)
        scene.gate.kill()
        scene.gate.start()
    scene.pay("after kills", 10)
    third = scene.check("after kills")
    scene.check_growth("after kills", second, third)
    for name, change in DAMAGES:
        code = scene.gate.stop()
        scene.report.check_that(f"{name}: the gate stops in order", code == 0, f"exit code {code}")
        change(scene.folder)
        scene.gate.start()
        if name == "a deleted tree":
            # Without a payment, too.
            scene.check(name)
        scene.pay(f"after {name}", 10)
        fourth = scene.check(f"after {name}")
        scene.check_growth(f"after {name}", third, fourth)
        third = fourth
    print(
        f"checkpoints: {first.size}, {second.size} and {third.size} lines; {KILLS} kills, {len(DAMAGES)} damaged trees"
    )


def main() -> int:
    binary = parse_arguments(__doc__).binary
    report = Report()
    begin = time.monotonic()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-")))
        for name in ("log", "another", "other"):
            make_key(binary, home / f"{name}.pem")
        upstream = stack.enter_context(start_simulator(binary, "--latency-ms", "2"))
        names = ("w1.example", "w2.example")
        witnesses = [stack.enter_context(start_witness(binary, home, name)) for name in names]
        scene = Scene(binary, upstream, home, witnesses, report)
        scene.gate.start()
        stack.callback(scene.gate.stop)
        try:
            run(scene)
        except TlogError as error:
            report.check("the run", str(error))
    print(f"{time.monotonic() - begin:.0f} s")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
