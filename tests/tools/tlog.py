"""Verifies transparency logs: signed notes, checkpoints, cosignatures, tiles, and proofs that a log only grew.

This follows C2SP's signed-note, tlog-checkpoint, tlog-cosignature, tlog-tiles and tlog-witness, and RFC 6962, and
nothing of Sluice.
OpenSSL makes and verifies the signatures.
"""

import base64
import binascii
import hashlib
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

DASH = "\u2014 "
LOG_KEY, WITNESS_KEY = 0x01, 0x04
TILE_HEIGHT = 8
TILE_WIDTH = 1 << TILE_HEIGHT
HASH_BYTES = 32
SIZE = re.compile(r"0|[1-9][0-9]*")
# The DER before the 32 bytes of an Ed25519 public key.
ED25519_DER = bytes.fromhex("302a300506032b6570032100")

# Returns the hash over the leaves from one index up to another.
SubtreeHash = Callable[[int, int], bytes]


class TlogError(Exception):
    """Something that was read is not what it claims to be."""


class Key(NamedTuple):
    """A public key, with the name and the role under which it signs."""

    name: str
    kind: int
    public: bytes

    def key_id(self) -> bytes:
        return sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public)[:4]


class Signature(NamedTuple):
    """One signature of a note."""

    name: str
    key_id: bytes
    data: bytes

    def __str__(self) -> str:
        return f"{DASH}{self.name} {encode_base64(self.key_id + self.data)}\n"


class Note(NamedTuple):
    """A text, with the end of its last line, and its signatures."""

    text: str
    signatures: list[Signature]

    def __str__(self) -> str:
        return f"{self.text}\n{''.join(map(str, self.signatures))}"


class Checkpoint(NamedTuple):
    """A log's size and root, as a note says them."""

    origin: str
    size: int
    root: bytes
    extension: list[str]
    note: Note


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def decode_base64(text: str) -> bytes:
    """Decodes base64 that is written in the one way."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise TlogError(f"`{text}` is not base64") from error
    if encode_base64(data) != text:
        raise TlogError(f"`{text}` has another spelling in base64")
    return data


def parse_key(text: str) -> Key:
    """Reads a key in the form `NAME+ID+KEY`."""
    parts = text.strip().split("+", 2)
    if len(parts) != 3:
        raise TlogError(f"`{text}` is not a key")
    data = decode_base64(parts[2])
    key = Key(parts[0], data[0], data[1:])
    if key.key_id().hex() != parts[1] or len(key.public) != HASH_BYTES:
        raise TlogError(f"`{text}` has another id or length than its key")
    return key


def read_public_key(file: Path) -> bytes:
    """Reads the Ed25519 key of a PEM file."""
    body = "".join(line for line in file.read_text(encoding="ascii").splitlines() if "-----" not in line)
    der = decode_base64(body)
    if not der.startswith(ED25519_DER) or len(der) != len(ED25519_DER) + HASH_BYTES:
        raise TlogError(f"`{file}` is not an Ed25519 public key")
    return der[len(ED25519_DER) :]


def parse_note(note: str) -> Note:
    """Reads a signed note."""
    if any(char < " " and char != "\n" for char in note):
        raise TlogError("the note has control characters")
    end = note.rfind("\n\n")
    if end < 0 or not note.endswith("\n"):
        raise TlogError("the note has no empty line, or does not end with a line")
    signatures = [parse_signature(line) for line in note[end + 2 : -1].split("\n")]
    return Note(note[: end + 1], signatures)


def parse_signature(line: str) -> Signature:
    name, space, encoded = line.removeprefix(DASH).partition(" ")
    if not line.startswith(DASH) or not name or not space or "+" in name or any(char.isspace() for char in name):
        raise TlogError(f"`{line}` is not a signature")
    data = decode_base64(encoded)
    if len(data) < 5:
        raise TlogError(f"`{line}` is too short for a signature")
    return Signature(name, data[:4], data[4:])


def read_checkpoint(note_text: str) -> Checkpoint:
    """Reads a checkpoint; whether anybody signed it is another question."""
    note = parse_note(note_text)
    lines = note.text[:-1].split("\n")
    if len(lines) < 3 or not all(lines):
        raise TlogError("the checkpoint has less than three lines, or an empty one")
    if not SIZE.fullmatch(lines[1]):
        raise TlogError(f"`{lines[1]}` is not a size")
    root = decode_base64(lines[2])
    if len(root) != HASH_BYTES:
        raise TlogError(f"`{lines[2]}` is not a hash")
    return Checkpoint(lines[0], int(lines[1]), root, lines[3:], note)


def verify_note(note: Note, key: Key) -> int | None:
    """Returns when a witness signed, and None for a log; every signature of the key must be right."""
    own = [one for one in note.signatures if (one.name, one.key_id) == (key.name, key.key_id())]
    if not own:
        raise TlogError(f"`{key.name}` did not sign")
    at = None
    for signature in own:
        message, data = note.text, signature.data
        if key.kind == WITNESS_KEY:
            at, data = int.from_bytes(data[:8], "big"), data[8:]
            message = f"cosignature/v1\ntime {at}\n{note.text}"
            if not 0 < at < 2**63:
                raise TlogError(f"`{key.name}` signed at no time")
        if not verify_ed25519(key.public, message.encode(), data):
            raise TlogError(f"the signature of `{key.name}` is wrong")
    return at


def verify_ed25519(public: bytes, message: bytes, signature: bytes) -> bool:
    body = encode_base64(ED25519_DER + public)
    pem = f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n"
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        files = {"key": pem.encode(), "message": message, "signature": signature}
        paths = {name: Path(folder) / name for name in files}
        for name, data in files.items():
            paths[name].write_bytes(data)
        words: list[str | Path] = [
            "-verify",
            "-pubin",
            "-inkey",
            paths["key"],
            "-in",
            paths["message"],
            "-sigfile",
            paths["signature"],
        ]
        done = subprocess.run(["openssl", "pkeyutl", "-rawin", *words], capture_output=True, check=False)
    return done.returncode == 0


def sign(text: str, key: Key, private: Path) -> Signature:
    """Signs a text as a log; as a witness, now."""
    at = b""
    if key.kind == WITNESS_KEY:
        seconds = int(time.time())
        at, text = seconds.to_bytes(8, "big"), f"cosignature/v1\ntime {seconds}\n{text}"
    with tempfile.NamedTemporaryFile(prefix="sluice-") as message:
        message.write(text.encode())
        message.flush()
        words: list[str | Path] = ["-sign", "-rawin", "-inkey", private, "-in", message.name]
        done = subprocess.run(["openssl", "pkeyutl", *words], capture_output=True, check=True)
    return Signature(key.name, key.key_id(), at + done.stdout)


def sign_note(text: str, key: Key, private: Path) -> str:
    """Returns a note that a log's key signed."""
    return str(Note(text, [sign(text, key, private)]))


def add_request(old: int, note: str, proof: Sequence[bytes] = ()) -> str:
    """Returns the body of tlog-witness that asks for a signature of a checkpoint."""
    lines = "".join(f"{encode_base64(one)}\n" for one in proof)
    return f"old {old}\n{lines}\n{note}"


def hash_leaf(entry: bytes) -> bytes:
    return sha256(b"\x00" + entry)


def hash_node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right)


def split_size(size: int) -> int:
    """Returns the largest power of two below a size, which is at least 2."""
    return 1 << ((size - 1).bit_length() - 1)


def hash_tree(leaves: Sequence[bytes]) -> bytes:
    """Returns the root over hashes of leaves: RFC 6962, 2.1."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256(b"")
    left = split_size(len(leaves))
    return hash_node(hash_tree(leaves[:left]), hash_tree(leaves[left:]))


def prove_consistency(subtree: SubtreeHash, old: int, new: int) -> list[bytes]:
    """Returns the proof that a tree of the new size has all leaves of the old one: RFC 6962, 2.1.2."""

    def prove(start: int, end: int, *, is_old_tree: bool) -> list[bytes]:
        if old == end:
            return [] if is_old_tree else [subtree(start, end)]
        middle = start + split_size(end - start)
        if old <= middle:
            return [*prove(start, middle, is_old_tree=is_old_tree), subtree(middle, end)]
        return [*prove(middle, end, is_old_tree=False), subtree(start, middle)]

    return prove(0, new, is_old_tree=True) if old > 0 else []


def is_consistent(old: tuple[int, bytes], new: tuple[int, bytes], proof: Sequence[bytes]) -> bool:
    """Says whether a proof leads from the old size and root to the new ones.

    The function walks the tree as the proof was made, and takes each hash of the proof where one was put.
    """
    rest = list(proof)

    def walk(old_size: int, new_size: int, *, is_old_tree: bool) -> tuple[bytes, bytes]:
        if old_size == new_size:
            found = old[1] if is_old_tree else rest.pop(0)
            return found, found
        left = split_size(new_size)
        if old_size <= left:
            before, after = walk(old_size, left, is_old_tree=is_old_tree)
            return before, hash_node(after, rest.pop(0))
        before, after = walk(old_size - left, new_size - left, is_old_tree=False)
        beside = rest.pop(0)
        return hash_node(beside, before), hash_node(beside, after)

    if old[0] == 0 or old[0] > new[0]:
        return old[0] == 0 and not rest
    try:
        roots = walk(old[0], new[0], is_old_tree=True)
    except IndexError:
        return False
    return not rest and roots == (old[1], new[1])


class TileFolder:
    """The folder of a log whose tree has a size."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.size = size

    def width(self, level: int, index: int) -> int:
        """Returns how many hashes the tile has."""
        return max(0, min(TILE_WIDTH, (self.size >> (TILE_HEIGHT * level)) - index * TILE_WIDTH))

    def path(self, level: str, index: int, width: int) -> Path:
        digits = f"{index:03}"
        digits = digits.zfill(-(-len(digits) // 3) * 3)
        parts = [digits[at : at + 3] for at in range(0, len(digits), 3)]
        name = "/".join([*(f"x{part}" for part in parts[:-1]), parts[-1]])
        return self.folder / "tile" / level / (name if width == TILE_WIDTH else f"{name}.p/{width}")

    def read(self, level: str, index: int, width: int) -> bytes:
        """Reads a tile; the full one may stand for one that is not."""
        for path in (self.path(level, index, width), self.path(level, index, TILE_WIDTH)):
            if path.is_file():
                return path.read_bytes()
        raise TlogError(f"the tile {level}/{index} with {width} of {TILE_WIDTH} is missing")

    def row(self, level: int, index: int) -> list[bytes]:
        """Returns the hashes of a tile."""
        width = self.width(level, index)
        data = self.read(str(level), index, width)
        if len(data) not in (width * HASH_BYTES, TILE_WIDTH * HASH_BYTES):
            raise TlogError(f"the tile {level}/{index} has {len(data)} bytes, not {width} hashes")
        return [data[at * HASH_BYTES : (at + 1) * HASH_BYTES] for at in range(width)]

    def bundle(self, index: int) -> list[bytes]:
        """Returns the entries of a bundle."""
        width = self.width(0, index)
        data = self.read("entries", index, width)
        entries, at = [], 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 2], "big")
            entries.append(data[at + 2 : at + 2 + length])
            at += 2 + length
        if len(entries) not in (width, TILE_WIDTH) or at != len(data):
            raise TlogError(f"the bundle {index} has {len(entries)} entries, not {width}")
        return entries[:width]

    def entries(self) -> list[bytes]:
        return [entry for index in range(-(-self.size // TILE_WIDTH)) for entry in self.bundle(index)]

    def subtree(self, start: int, end: int) -> bytes:
        """Returns the hash over leaves, from the highest tile that has it."""
        level, leaves = 0, 1
        while leaves * TILE_WIDTH <= end - start:
            level, leaves = level + 1, leaves * TILE_WIDTH
        if end - start == leaves and start % leaves == 0:
            index = start // leaves
            return self.row(level, index // TILE_WIDTH)[index % TILE_WIDTH]
        middle = start + split_size(end - start)
        return hash_node(self.subtree(start, middle), self.subtree(middle, end))

    def check(self, root: bytes) -> list[str]:
        """Computes the whole tree from its entries; returns what differs from its tiles and from a root."""
        try:
            hashes = [hash_leaf(entry) for entry in self.entries()]
        except TlogError as error:
            return [str(error)]
        faults = [] if hash_tree(hashes) == root else ["the entries have another root"]
        level = 0
        while hashes:
            for index in range(-(-len(hashes) // TILE_WIDTH)):
                expected = hashes[index * TILE_WIDTH : (index + 1) * TILE_WIDTH]
                try:
                    if self.row(level, index) != expected:
                        faults.append(f"the tile {level}/{index} differs from the entries")
                except TlogError as error:
                    faults.append(str(error))
            full = len(hashes) // TILE_WIDTH
            hashes = [hash_tree(hashes[at * TILE_WIDTH : (at + 1) * TILE_WIDTH]) for at in range(full)]
            level += 1
        return faults
