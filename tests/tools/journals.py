"""The journal of a gate as an auditor reads it who has files, public keys, and what witnesses say; and its damages.

Only the lines and their salts are Sluice's own; the tree over them is verified as `tlog.py` does for any log.
"""

import hmac
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tlog import (
    Checkpoint,
    Key,
    Note,
    TileFolder,
    TlogError,
    encode_base64,
    hash_leaf,
    hash_tree,
    parse_note,
    read_checkpoint,
    sha256,
    sign,
    verify_note,
)

NODE = "gate"
# A line's own hashes are the last members with these names: names are sorted, and texts escape quotes.
LINE = re.compile(rb'(.*),"hash":"([0-9a-f]{64})"(.*),"previous":"([0-9a-f]{64})"(.*)', re.DOTALL)


def tree_folder(folder: Path) -> Path:
    return folder / f"audit-{NODE}.tree"


def own_checkpoints(folder: Path) -> Path:
    return folder / f"audit-{NODE}.checkpoints.jsonl"


def journal_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"audit-{NODE}-????????.jsonl"))


def read_lines(folder: Path) -> list[bytes]:
    """Returns the lines of the journal that have an end."""
    return [line for file in journal_files(folder) for line in lines_of(file)]


def lines_of(file: Path) -> list[bytes]:
    return file.read_bytes().split(b"\n")[:-1]


class Line(NamedTuple):
    """A line in parts: what stands before, between and behind its two hashes."""

    before: bytes
    own: bytes
    between: bytes
    previous: bytes
    behind: bytes

    def hash_behind(self, previous: bytes) -> bytes:
        """Returns the hash that the line has behind another one."""
        return sha256(previous + self.before + self.between + self.behind)

    def put_behind(self, previous: bytes) -> bytes:
        """Writes the line behind another one."""
        own = b',"hash":"' + self.hash_behind(previous).hex().encode() + b'"'
        return self.before + own + self.between + b',"previous":"' + previous.hex().encode() + b'"' + self.behind


def split_line(text: bytes) -> Line:
    found = LINE.fullmatch(text)
    if not found:
        raise TlogError(f"a line has no hashes: {text!r}")
    return Line(found[1], bytes.fromhex(found[2].decode()), found[3], bytes.fromhex(found[4].decode()), found[5])


def check_chain(lines: Sequence[bytes]) -> list[str]:
    """Returns which lines are not those that their hashes say."""
    faults, last = [], bytes(32)
    for number, line in enumerate(lines, 1):
        parts = split_line(line)
        if parts.hash_behind(parts.previous) != parts.own:
            faults.append(f"line: line {number} has another text than its hash")
        if parts.previous != last:
            faults.append(f"line: line {number} does not follow line {number - 1}")
        last = parts.own
    return faults


def read_secret(folder: Path) -> bytes:
    """Returns the secret of the salts."""
    return bytes.fromhex((folder / f"audit-{NODE}.salt").read_text(encoding="ascii"))


def log_name(folder: Path) -> str:
    """Returns the name of the log: of the node, and of its salts."""
    return f"sluice/{NODE}/{hmac.digest(read_secret(folder), b'the name of the log', 'sha256')[:8].hex()}"


def salted_entries(folder: Path, lines: Sequence[bytes]) -> list[bytes]:
    """Returns what the tree should have of each line."""
    secret = read_secret(folder)
    salts = [hmac.digest(secret, index.to_bytes(8, "big"), "sha256") for index in range(len(lines))]
    return [hmac.digest(salt, split_line(line).own, "sha256") for salt, line in zip(salts, lines, strict=True)]


def check_tree(folder: Path, checkpoint: Checkpoint, entries: Sequence[bytes]) -> list[str]:
    """Compares the tree of a checkpoint with its root, and with the journal."""
    tiles = TileFolder(tree_folder(folder), checkpoint.size)
    faults = [f"tile: {fault}" for fault in tiles.check(checkpoint.root)]
    try:
        bundled = tiles.entries()
    except TlogError as error:
        return [*faults, f"tile: {error}"]
    wrong = [index for index, entry in enumerate(bundled) if entries[index : index + 1] != [entry]]
    return [*faults, *([f"entry: {len(wrong)} entries are not of the journal's lines: {wrong[:3]}"] if wrong else [])]


class Auditor(NamedTuple):
    """The knowledge of an auditor: public keys, and the time when all began."""

    log_key: Key
    witnesses: list[Key]
    since: float

    def read(self, note: str, witnesses: Sequence[Key]) -> Checkpoint:
        """Reads a checkpoint of this log that these witnesses signed."""
        checkpoint = read_checkpoint(note)
        if checkpoint.origin != self.log_key.name:
            raise TlogError(f"it is a checkpoint of `{checkpoint.origin}`")
        verify_note(checkpoint.note, self.log_key)
        for witness in witnesses:
            at = verify_note(checkpoint.note, witness) or 0
            if not int(self.since) <= at <= time.time():
                raise TlogError(f"`{witness.name}` signed at {at}")
        return checkpoint

    def published(self, folder: Path) -> Checkpoint:
        """Reads the checkpoint that the log publishes."""
        return self.read((tree_folder(folder) / "checkpoint").read_text(encoding="utf-8"), self.witnesses)

    def check_kept(self, folder: Path) -> list[str]:
        """Compares the checkpoints that the gate keeps, and where they end in its files, with the journal."""
        files = [lines_of(file) for file in journal_files(folder)]
        lines = [line for file in files for line in file]
        leaves = [hash_leaf(entry) for entry in salted_entries(folder, lines)]
        faults = []
        for text in own_checkpoints(folder).read_text(encoding="utf-8").splitlines():
            record = json.loads(text)
            checkpoint = self.read(record["checkpoint"], [])
            size, place = checkpoint.size, record.get("place")
            if checkpoint.extension or hash_tree(leaves[:size]) != checkpoint.root:
                faults.append(f"the checkpoint of {size} lines has another root, or more lines")
            is_witnessed = any(one.name != self.log_key.name for one in checkpoint.note.signatures)
            if is_witnessed == bool(place):
                faults.append(f"the checkpoint of {size} lines has a place and witnesses, or neither")
            if place:
                covered = files[place["sequence"] - 1][: place["lines"]]
                before = sum(map(len, files[place["begins"] - 1 : place["sequence"] - 1]))
                length, own = sum(len(line) + 1 for line in covered), split_line(covered[-1]).own.hex()
                if (before + len(covered), length, own) != (size, place["length"], place["hash"]):
                    faults.append(f"the checkpoint of {size} lines has another place: {place}")
        return faults

    def audit(self, folder: Path, listings: Sequence[str]) -> list[str]:
        """Compares a journal and its tree with what witnesses say; returns what differs."""
        lines = read_lines(folder)
        faults = check_chain(lines)
        entries = salted_entries(folder, lines)
        leaves = [hash_leaf(entry) for entry in entries]
        size = 0
        for listing, witness in zip(listings, self.witnesses, strict=True):
            if not listing:
                faults.append(f"unwitnessed: `{witness.name}` saw nothing")
            for line in listing.splitlines():
                try:
                    checkpoint = self.read(json.loads(line)["checkpoint"], [witness])
                except TlogError as error:
                    faults.append(f"signature: {error}")
                    continue
                if checkpoint.size > len(lines):
                    faults.append(f"cut: {len(lines)} lines, and `{witness.name}` saw {checkpoint.size}")
                    continue
                if hash_tree(leaves[: checkpoint.size]) != checkpoint.root:
                    faults.append(f"root: the first {checkpoint.size} lines differ from those of `{witness.name}`")
                if checkpoint.size > size:
                    size = checkpoint.size
                    faults += check_tree(folder, checkpoint, entries)
        return faults


def delete_lines(folder: Path, count: int = 1) -> None:
    file = journal_files(folder)[-1]
    file.write_bytes(b"".join(line + b"\n" for line in lines_of(file)[:-count]))


def set_back(folder: Path) -> None:
    """Deletes what came last, the tree, and the gate's own checkpoints."""
    delete_lines(folder, 100)
    own_checkpoints(folder).unlink()
    shutil.rmtree(tree_folder(folder))


def change_text(folder: Path) -> None:
    """Changes a payment's `requestId`, and no hash."""
    file = journal_files(folder)[0]
    lines = file.read_bytes().split(b"\n")
    at = next(at for at in range(len(lines) // 2, len(lines)) if b'"sending"' in lines[at])
    lines[at] = re.sub(rb'"requestId":"[^"]', b'"requestId":"X', lines[at])
    file.write_bytes(b"\n".join(lines))


def rewrite_chain(folder: Path) -> None:
    """Changes a payment, computes all hashes anew, and removes the gate's own checkpoints."""
    change_text(folder)
    last = bytes(32)
    for file in journal_files(folder):
        written = b""
        for text in lines_of(file):
            line = split_line(text)
            written += line.put_behind(last) + b"\n"
            last = line.hash_behind(last)
        file.write_bytes(written)
    own_checkpoints(folder).unlink()


def change_byte(file: Path, at: int = 40) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def change_salt(folder: Path) -> None:
    file = folder / f"audit-{NODE}.salt"
    text = file.read_text()
    file.write_text(("1" if text[0] == "0" else "0") + text[1:])


def full_tile(folder: Path, level: str = "0") -> Path:
    return tree_folder(folder) / "tile" / level / "000"


def newest_tile(folder: Path, level: str, name: str) -> Path:
    """Returns the widest file of a tile that is not full."""
    files = (tree_folder(folder) / "tile" / level / f"{name}.p").iterdir()
    return max(files, key=lambda file: int(file.name))


def lengthen(file: Path, more: bytes) -> None:
    file.write_bytes(file.read_bytes() + more)


class Attack(NamedTuple):
    """A change of a copy of a journal, and who must find it."""

    name: str
    change: Callable[[Path], object]
    # How a finding of this tool begins.
    begin: str
    # The name of a finding of `sluice audit verify`; empty if it computes anew what was changed.
    finding: str


ATTACKS = [
    Attack("a deleted line", delete_lines, "cut", "cut-off"),
    Attack("a journal that was set back", set_back, "cut", "cut-off"),
    Attack("a changed text", change_text, "line", "changed"),
    Attack("a rewritten chain", rewrite_chain, "root", "rewritten"),
    Attack("another salt", change_salt, "root", "other-log"),
    Attack("a changed tile", lambda folder: change_byte(full_tile(folder)), "tile", ""),
    Attack("a changed entry", lambda folder: change_byte(full_tile(folder, "entries")), "entry", ""),
]
# Damages of the files of a gate that is stopped, which the gate must make again.
DAMAGES: list[tuple[str, Callable[[Path], object]]] = [
    ("a deleted tree", lambda folder: shutil.rmtree(tree_folder(folder))),
    ("a changed newest entry", lambda folder: change_byte(newest_tile(folder, "entries", "001"))),
    ("a changed newest tile", lambda folder: change_byte(newest_tile(folder, "0", "001"))),
    ("a changed tile of the second level", lambda folder: change_byte(newest_tile(folder, "1", "000"), 8)),
    ("a deleted tile", lambda folder: full_tile(folder).unlink()),
    ("a changed tile", lambda folder: change_byte(full_tile(folder))),
    ("a changed entry", lambda folder: change_byte(full_tile(folder, "entries"))),
    ("deleted checkpoints", lambda folder: own_checkpoints(folder).unlink()),
    ("a longer tile", lambda folder: lengthen(full_tile(folder), bytes(32))),
    ("a longer bundle", lambda folder: lengthen(full_tile(folder, "entries"), b"\x00\x20" + bytes(32))),
]


class Verdict(NamedTuple):
    """The result of `sluice audit verify`."""

    code: int
    findings: list[str]
    # The lines that enough witnesses signed.
    witnessed: int
    said: str


def verify_by_sluice(binary: str, folder: Path, words: Sequence[str | Path]) -> Verdict:
    command = [binary, "audit", "verify", folder, "--output", "json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = json.loads(done.stdout or "{}")
    findings = [finding["what"] for finding in said.get("findings", [])]
    lines = said.get("witnessed", {}).get(NODE, {}).get("lines", 0)
    return Verdict(done.returncode, findings, lines, done.stdout + done.stderr)


def size_without_checkpoint(folder: Path, newest: int) -> int:
    """Returns a size of the log of which it has no checkpoint: a slow gate makes one of the first line, too."""
    notes = [json.loads(line)["checkpoint"] for line in own_checkpoints(folder).read_text().splitlines()]
    sizes = {read_checkpoint(note).size for note in notes}
    return next(size for size in range(1, newest) if size not in sizes)


def forge_listings(
    home: Path, auditor: Auditor, newest: int, between: int, listing: str
) -> list[tuple[str, str, str, str]]:
    """Returns what the first witness might list, how this tool's finding begins, and the name of Sluice's.

    `between` is a size without a checkpoint.
    """
    log_key, witness = auditor.log_key, auditor.witnesses[0]
    note = parse_note(json.loads(listing)["checkpoint"])

    def with_change(name: str) -> str:
        """Damages the signature of a name."""

        def damage(data: bytes) -> bytes:
            return data[:-1] + bytes([data[-1] ^ 1])

        changed = [one if one.name != name else one._replace(data=damage(one.data)) for one in note.signatures]
        return as_listing(Note(note.text, changed))

    def forged(size: int) -> str:
        """Returns a checkpoint of another tree, which both the log and the witness signed."""
        text = f"{log_key.name}\n{size}\n{encode_base64(sha256(b'forged'))}\n"
        keys = ((log_key, "log.pem"), (witness, f"{witness.name}.pem"))
        return as_listing(Note(text, [sign(text, key, home / private) for key, private in keys]))

    renamed = note.text.replace(log_key.name, other_log := f"sluice/{NODE}/{16 * '0'}")
    other = sign(renamed, log_key._replace(name=other_log), home / "log.pem")
    return [
        ("a wrong signature of a witness", with_change(witness.name), "signature", "witness-signature"),
        ("a wrong signature of the log", with_change(log_key.name), "signature", "checkpoint-signature"),
        ("a fork", forged(newest), "root", "forked"),
        ("a fork of a size without another checkpoint", forged(between), "root", "rewritten"),
        ("a longer log", forged(newest + 1), "cut", "cut-off"),
        ("another log", listing + as_listing(Note(renamed, [other])), "signature", "other-log"),
    ]


def as_listing(note: Note) -> str:
    return json.dumps({"checkpoint": str(note)}) + "\n"
