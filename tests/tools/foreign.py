"""Has programs that others wrote witness and verify a gate's journal, and write a log for a witness of Sluice.

Usage: `python tests/tools/foreign.py SLUICE VENV`. VENV has the packages aics-tlog and aics-witness of PyPI, which
follow C2SP's signed-note, tlog-checkpoint, tlog-cosignature, tlog-tiles and tlog-witness; they need Python 3.12.

A gate makes payments, and a witness of aics-witness signs its checkpoints. aics-tlog verifies the notes and the tiles
that the gate publishes, that the log only grew, and that it has each line. It must refuse copies in which a line is
missing or another one, and a fork. Then a log of aics-tlog asks `sluice witness` for signatures, honestly and not.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gate import free_port, run_program, start_simulator, wait_until
from journals import log_name, read_lines, tree_folder
from report import Report
from swaps import KillableGate, Swaps, call_until_known, run_together
from tlog import LOG_KEY, TILE_WIDTH, Key, TileFolder, encode_base64, read_checkpoint, read_public_key, sign_note
from witnessed import make_key, start_witness

NAME = "foreign.example/w1"
PATIENCE_SECONDS = 60
# A log of its own, with a witness of Sluice; the words behind the script are its address and its key.
LOG = """
import sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from aics_tlog import Checkpoint, MerkleTree, parse_note, parse_vkey
from aics_tlog import sign_checkpoint, verify_checkpoint, vkey_from_ed25519
from aics_witness import WitnessClient, WitnessConflict, WitnessRejected, merge_cosignatures

url, witness, pem = sys.argv[1:]
key = load_pem_private_key(open(pem, "rb").read(), None)
name = "sluice/foreign/0123456789abcdef"

def note(tree, by=key):
    return sign_checkpoint(Checkpoint(origin=name, size=tree.size, root=tree.root()), by, name).to_bytes()

def tree_of(leaves):
    return MerkleTree([leaf.encode() for leaf in leaves])

def client():
    return WitnessClient(url, witness)

short, long, fork = tree_of("abc"), tree_of("abcdefg" * 60), tree_of("abX" + "d" * 417)
with client() as one:
    for tree in (short, long):
        lines = one.submit(note(tree), lambda old, new: tree.consistency_proof(old, new))
        signed = parse_note(merge_cosignatures(note(tree), lines))
        verdict = verify_checkpoint(signed, vkey_from_ed25519(name, key.public_key()), [parse_vkey(witness)], 1)
        assert verdict.ok, verdict
        print(f"signed {tree.size}")
    one.submit(note(long), lambda old, new: long.consistency_proof(old, new))
    print("signed the same again")
for what, tree, by in (("a fork", fork, key), ("a stranger", long, Ed25519PrivateKey.generate())):
    with client() as other:
        try:
            other.submit(note(tree, by), lambda old, new: tree.consistency_proof(old, new), old_size=long.size)
        except (WitnessRejected, WitnessConflict) as error:
            print(f"refused {what}: {type(error).__name__} {getattr(error, 'status', '')}")
        else:
            sys.exit(f"{what} was signed")
"""


class Foreign:
    """The programs of others."""

    def __init__(self, venv: Path) -> None:
        self.venv = venv

    def run(self, program: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [self.venv / "bin" / program, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)

    def verify(self, what: str, tree: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return self.run("aics-tlog", what, "--tiles", tree, *words)


@contextmanager
def start_foreign_witness(foreign: Foreign, config: Path, log: Key) -> Iterator[None]:
    """Runs a witness of others that knows the log."""
    vkey = f"{log.name}+{log.key_id().hex()}+{encode_base64(bytes([LOG_KEY]) + log.public)}"
    added = foreign.run("aics-witness", "add-log", "--config", config, "--origin", log.name, "--vkey", vkey)
    if added.returncode != 0:
        raise RuntimeError(f"the foreign witness does not take the log: {added.stderr}")
    with run_program([str(foreign.venv / "bin" / "aics-witness"), "serve", "--config", str(config)]):
        yield


def without_entry(tree: Path) -> None:
    """Takes the second entry out, as somebody does who deletes a line and leaves the rest."""
    folder = TileFolder(tree, read_checkpoint((tree / "checkpoint").read_text()).size)
    file = folder.path("entries", 0, folder.width(0, 0))
    data = file.read_bytes()
    length = 2 + int.from_bytes(data[:2], "big")
    second = length + 2 + int.from_bytes(data[length : length + 2], "big")
    file.write_bytes(data[:length] + data[second:])


def with_other_entry(tree: Path) -> None:
    folder = TileFolder(tree, read_checkpoint((tree / "checkpoint").read_text()).size)
    file = folder.path("entries", 0, folder.width(0, 0))
    data = bytearray(file.read_bytes())
    data[5] ^= 1
    file.write_bytes(bytes(data))


def with_other_hash(tree: Path) -> None:
    folder = TileFolder(tree, read_checkpoint((tree / "checkpoint").read_text()).size)
    file = folder.path("0", 0, folder.width(0, 0))
    data = bytearray(file.read_bytes())
    data[40] ^= 1
    file.write_bytes(bytes(data))


class Scene:
    """A gate whose witness is a program of others."""

    def __init__(self, binary: str, foreign: Foreign, upstream: str, home: Path, report: Report) -> None:
        self.binary, self.foreign, self.upstream, self.home, self.report = binary, foreign, upstream, home, report
        make_key(binary, home / "log.pem")
        folder = home / "gate"
        folder.mkdir()
        shutil.copy(home / "log.pem", folder)
        self.config = home / "witness" / "witness.json"
        self.config.parent.mkdir()
        port = free_port()
        words = ["--config", str(self.config), "--name", NAME, "--listen", f"127.0.0.1:{port}"]
        made = foreign.run("aics-witness", "init", *words)
        self.witness_key = next((word for word in made.stdout.split() if word.startswith(f"{NAME}+")), "")
        if not self.witness_key:
            raise RuntimeError(f"the foreign witness prints no key: {made}")
        sections = (
            '\n[audit]\ncheckpoint_key = { file = "log.pem" }\ncheckpoint_seconds = 1\n'
            f'[witness.foreign]\nurl = "http://127.0.0.1:{port}"\nkey = "{self.witness_key}"\n'
        )
        self.gate = KillableGate(binary, upstream, folder, sections)
        self.folder = self.gate.audit_folder
        self.tree = tree_folder(self.folder)

    def log(self) -> Key:
        return Key(log_name(self.folder), LOG_KEY, read_public_key(self.home / "log.pem.pub"))

    def keys(self) -> list[str]:
        log = self.log()
        vkey = f"{log.name}+{log.key_id().hex()}+{encode_base64(bytes([LOG_KEY]) + log.public)}"
        return ["--log-key", vkey, "--origin", log.name, "--witness-key", self.witness_key, "--quorum", "1"]

    def pay(self, name: str, count: int) -> None:
        swaps = Swaps(count, name)
        run_together([lambda: call_until_known([self.gate], swaps, self.upstream)] * 8, swaps)
        self.report.check(f"{name}: all payments are made", "; ".join(swaps.faults[:3]))

    def is_witnessed(self) -> bool:
        file = self.tree / "checkpoint"
        return file.is_file() and read_checkpoint(file.read_text()).size == len(read_lines(self.folder))

    def check(self, name: str, what: str, tree: Path, *words: str | Path, holds: bool = True) -> None:
        """Has the foreign program verify something, and checks what it says."""
        done = self.foreign.verify(what, tree, *self.keys(), *words)
        told = f"{done.returncode} {done.stdout[-300:]} {done.stderr[-300:]}"
        self.report.check_that(f"{name}: {what} {'holds' if holds else 'fails'}", (done.returncode == 0) == holds, told)

    def verify_log(self, name: str, old: Path | None) -> Path:
        """Verifies what the gate publishes; returns the checkpoint."""
        if not wait_until(self.is_witnessed, PATIENCE_SECONDS):
            told = [line for line in self.gate.logs[-1] if line.get("level") in ("WARN", "ERROR")]
            raise RuntimeError(f"{name}: the foreign witness did not sign all lines: {told[-5:]}")
        published = self.home / f"{name}.checkpoint"
        shutil.copy(self.tree / "checkpoint", published)
        self.check(name, "verify-checkpoint", self.tree)
        size = read_checkpoint(published.read_text()).size
        entries = TileFolder(self.tree, size).entries()
        for index in {0, size // 2, size - 1}:
            leaf = self.home / "leaf"
            leaf.write_bytes(entries[index])
            self.check(f"{name}: line {index}", "verify-inclusion", self.tree, "--index", str(index), "--leaf", leaf)
            self.check(
                f"{name}: line {index} as the next one",
                "verify-inclusion",
                self.tree,
                "--index",
                str((index + 1) % size),
                "--leaf",
                leaf,
                holds=False,
            )
        if old:
            self.check(name, "verify-consistency", self.tree, "--old-checkpoint", old)
        return published

    def attack(self, old: Path) -> None:
        """Changes copies of what is published."""
        leaf = self.home / "leaf"
        size = read_checkpoint((self.tree / "checkpoint").read_text()).size
        leaf.write_bytes(TileFolder(self.tree, size).entries()[1])
        attacks: list[tuple[str, Callable[[Path], None], str, Sequence[str | Path]]] = [
            ("a deleted line", without_entry, "verify-inclusion", ["--index", "1", "--entry-out", self.home / "out"]),
            ("another line", with_other_entry, "verify-inclusion", ["--index", "0", "--entry-out", self.home / "out"]),
            ("another hash", with_other_hash, "verify-inclusion", ["--index", "1", "--leaf", leaf]),
            ("a fork", self.fork, "verify-checkpoint", []),
            ("a fork that was signed", self.fork, "verify-consistency", ["--old-checkpoint", old]),
        ]
        for name, change, what, words in attacks:
            copy = self.home / "copy"
            shutil.copytree(self.tree, copy)
            change(copy)
            self.check(name, what, copy, *words, holds=False)
            shutil.rmtree(copy)

    def fork(self, tree: Path) -> None:
        """Signs another root with the log's own key, as root on the gate can."""
        found = read_checkpoint((tree / "checkpoint").read_text())
        text = f"{found.origin}\n{found.size}\n{encode_base64(bytes(32))}\n"
        (tree / "checkpoint").write_text(sign_note(text, self.log(), self.home / "log.pem"))


def foreign_log(scene: Scene) -> None:
    """Has a log of others witnessed by a witness of Sluice."""
    make_key(scene.binary, scene.home / "another.pem")
    with start_witness(scene.binary, scene.home, "own.example", ["another"]) as witness:
        words = [f"http://{witness.address}", witness.key_text, str(scene.home / "another.pem")]
        done = scene.foreign.run("python", "-c", LOG, *words)
        print(done.stdout, end="")
        lines = done.stdout.splitlines()
        refused = [line for line in lines if line.startswith("refused")]
        holds = done.returncode == 0 and [line.split()[-1] for line in refused] == ["422", "403"]
        scene.report.check_that("a log of others is witnessed", holds, f"{done.returncode} {done.stderr[-800:]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("venv", type=Path)
    arguments, report = parser.parse_args(), Report()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-")))
        upstream = stack.enter_context(start_simulator(arguments.binary, "--latency-ms", "2"))
        scene = Scene(arguments.binary, Foreign(arguments.venv.absolute()), upstream, home, report)
        scene.gate.start()
        stack.callback(scene.gate.stop)
        scene.pay("first", 5)
        if not wait_until(lambda: bool(list(scene.folder.glob("*.salt"))), PATIENCE_SECONDS):
            raise RuntimeError("the gate begins no log")
        stack.enter_context(start_foreign_witness(scene.foreign, scene.config, scene.log()))
        first = scene.verify_log("first", None)
        # A full tile, and a second level.
        scene.pay("second", TILE_WIDTH // 2 + 20)
        scene.verify_log("second", first)
        scene.attack(first)
        foreign_log(scene)
        status = json.loads(scene.foreign.run("aics-witness", "status", "--config", scene.config, "--json").stdout)
        report.check_that("the foreign witness has seen the log", scene.log().name in json.dumps(status), status)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
