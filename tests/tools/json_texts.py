"""JSON texts to post: edge cases written by hand, and random texts that are valid or nearly so."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

# The fates of a text: the gate sends it on, or refuses it with this error code.
SENT = "sent"
BROKEN = "INVALID_JSON"
WRONG = "INVALID_REQUEST"

# Numbers on which parsers may disagree, each with its fate.
NUMBERS = [
    ("0", SENT),
    ("0.0", SENT),
    ("-1", SENT),
    ("1.10", SENT),
    ("0.1", SENT),
    ("0.000000000000001", SENT),
    ("999999999999999", SENT),
    ("-999999999999999", SENT),
    ("99999999.9999999", SENT),
    ("0.000123456789012345", SENT),
    ("100000000000000", SENT),
    ("1000000000000000", BROKEN),
    ("9007199254740992", BROKEN),
    ("9007199254740993", BROKEN),
    ("0.30000000000000004", BROKEN),
    ("123456789.12345678", BROKEN),
    ("18446744073709551616", BROKEN),
    ("1.000000000000000", BROKEN),
    ("0." + "0" * 30 + "1", BROKEN),
    ("1e3", BROKEN),
    ("1E3", BROKEN),
    ("1e-3", BROKEN),
    ("1e400", BROKEN),
    ("0e0", BROKEN),
    ("-0", BROKEN),
    ("-0.0", BROKEN),
    ("01", BROKEN),
    ("-01", BROKEN),
    ("+1", BROKEN),
    (".5", BROKEN),
    ("5.", BROKEN),
    ("-", BROKEN),
    ("1-", BROKEN),
    ("1.2.3", BROKEN),
    ("0x10", BROKEN),
    ("1_000", BROKEN),
    ("1n", BROKEN),
    ("NaN", BROKEN),
    ("Infinity", BROKEN),
    ("-Infinity", BROKEN),
    ("\u0661", BROKEN),
    ("\uff11", BROKEN),
]

# The insides of strings.
STRINGS = [
    ("", SENT),
    ("\\u0061", SENT),
    ("\\u0000", SENT),
    ("\\u007f\\u0080", SENT),
    ("\\/", SENT),
    ('\\"\\\\\\b\\f\\n\\r\\t', SENT),
    ("\u2028\u2029", SENT),
    ("\\u2028\\u2029", SENT),
    ("\ufeff", SENT),
    ("\\ufeff", SENT),
    ("\ufffd\uffff\ufdd0", SENT),
    ("\U0001f600", SENT),
    ("\\ud83d\\ude00", SENT),
    ("\\uD83D\\uDE00", SENT),
    ("e\u0301 \u00e9", SENT),
    ("\u202e\u200b", SENT),
    ("</script>", SENT),
    ("\x7f", SENT),
    ("\\ud800", BROKEN),
    ("\\udc00", BROKEN),
    ("\\ud800\\ud800", BROKEN),
    ("\\udc00\\ud800", BROKEN),
    ("\\ud800x", BROKEN),
    ("\\ud800\\n", BROKEN),
    ("\\ud83d\\u0041", BROKEN),
    ("\\u12", BROKEN),
    ("\\u12g4", BROKEN),
    ("\\u+123", BROKEN),
    ("\\U0041", BROKEN),
    ("\\x41", BROKEN),
    ("\\0", BROKEN),
    ("\\'", BROKEN),
    ("\\", BROKEN),
    ("\n", BROKEN),
    ("\t", BROKEN),
    ("\x00", BROKEN),
    ("\x1f", BROKEN),
]

# Bodies of the operation whose schema allows any member.
BODIES = [
    (b"{}", SENT),
    (b" \t\r\n{ } \n", SENT),
    (b'{"":{"":""}}', SENT),
    (b'{"__proto__":{"type":"individual"},"constructor":1}', SENT),
    (b'{"a":{"__proto__":null},"toString":"x"}', SENT),
    (b'{"2":1,"10":2,"1":3,"b":4,"a":5}', SENT),
    (b'{"$serde_json::private::Number":"1"}', SENT),
    (b'{"a":{"$serde_json::private::Number":"1e5"},"b":[{"$serde_json::private::RawValue":"1"}]}', SENT),
    ('{"\uff5e":1,"\U0001f600":2,"\u00e9":3,"e\u0301":4}'.encode(), SENT),
    (b'{"a":[[],{},[{}],null,true,false]}', SENT),
    (b'{"a":' + b"[" * 31 + b"]" * 31 + b"}", SENT),
    (b'{"a":' + b"[" * 32 + b"]" * 32 + b"}", BROKEN),
    (b'{"a":' + b"[" * 500_000, BROKEN),
    (b'{"a":' * 100_000, BROKEN),
    (b'{"a":1,"a":1}', BROKEN),
    (b'{"a":1,"\\u0061":2}', BROKEN),
    (b'{"a":{"b":1,"c":{},"b":2}}', BROKEN),
    (b'{"__proto__":1,"__proto__":2}', BROKEN),
    (b'[{"a":1,"a":2}]', BROKEN),
    (b'{"\\ud83d\\ude00":1,"\xf0\x9f\x98\x80":2}', BROKEN),
    (b"\xef\xbb\xbf{}", BROKEN),
    (b"\xff\xfe{\x00}\x00", BROKEN),
    (b"\x00{\x00}", BROKEN),
    (b"{}\x00", BROKEN),
    (b"\x00{}", BROKEN),
    (b"{}{}", BROKEN),
    (b"{},", BROKEN),
    (b"{} x", BROKEN),
    (b"{}\n{}", BROKEN),
    (b"\x0b{}", BROKEN),
    (b"\xc2\xa0{}", BROKEN),
    (b"\xe2\x80\xa8{}", BROKEN),
    (b"", BROKEN),
    (b" ", BROKEN),
    (b"{", BROKEN),
    (b'{"a"', BROKEN),
    (b'{"a":', BROKEN),
    (b'{"a":1', BROKEN),
    (b'{"a":1,}', BROKEN),
    (b'{,"a":1}', BROKEN),
    (b'{"a":[1,]}', BROKEN),
    (b'{"a":[1,,2]}', BROKEN),
    (b'{"a" 1}', BROKEN),
    (b"{a:1}", BROKEN),
    (b"{'a':1}", BROKEN),
    (b'{"a":1;"b":2}', BROKEN),
    (b'{"a":True}', BROKEN),
    (b'{"a":nul}', BROKEN),
    (b'{"a":nulll}', BROKEN),
    (b'{"a":undefined}', BROKEN),
    (b'{"a":1}//', BROKEN),
    (b'{"a":/**/1}', BROKEN),
    (b"#\n{}", BROKEN),
    (b")]}',\n{}", BROKEN),
    (b"\x1e{}\n", BROKEN),
    (b'{"a":"\xc3"}', BROKEN),
    (b'{"a":"\xc0\x80"}', BROKEN),
    (b'{"a":"\xed\xa0\x80"}', BROKEN),
    (b'{"a":"\xf4\x90\x80\x80"}', BROKEN),
    (b'{"a":"\x80"}', BROKEN),
    (b"[]", WRONG),
    (b"null", WRONG),
    (b'"x"', WRONG),
    (b"1", WRONG),
    (b'{"type":1}', WRONG),
    (b'{"\\u0074ype":1}', WRONG),
]


def handwritten_bodies() -> Iterator[tuple[bytes, str]]:
    """Yields bodies of the operation whose schema allows any member, each with its fate."""
    yield from BODIES
    for number, fate in NUMBERS:
        yield f'{{"a":{number}}}'.encode(), fate
        yield f'{{"a":[{number} ,{{"b": {number}}}]}}'.encode(), fate
    for string, fate in STRINGS:
        yield f'{{"a":"{string}"}}'.encode(), fate
        yield f'{{"a":{{"{string}":[]}}}}'.encode(), fate


class RawNumber(NamedTuple):
    """A number, written as `text`."""

    text: str


class TextMaker:
    """Makes random JSON texts from a seeded source."""

    def __init__(self, random: Random, swaps: list[bytes]) -> None:
        self.random = random
        self.swaps = swaps

    def open_body(self) -> bytes:
        """Returns a body of the operation whose schema allows any member."""
        members = {self.name(): self.value(3) for _ in range(self.random.randrange(6))}
        return self.spoil(self.write(members))

    def swap(self) -> bytes:
        swap = json.loads(self.random.choice(self.swaps))
        if self.random.random() < 0.3:
            place = self.random.choice([swap, swap["source"], swap["destination"]])
            name = self.random.choice([*place, self.name()])
            place[name] = self.value(1)
        if isinstance(swap.get("requestId"), str):
            # Unique, even if either text is spoilt later.
            swap["requestId"] = f"{self.random.getrandbits(64):016x}{swap['requestId'][:100]}"
        return self.spoil(self.write(swap))

    def value(self, depth: int) -> Any:
        kind = self.random.randrange(8 if depth else 5)
        if kind == 0:
            return self.random.choice([None, True, False])
        if kind < 3:
            return RawNumber(self.number())
        if kind < 5:
            return self.name()
        if kind == 5:
            return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
        return {self.name(): self.value(depth - 1) for _ in range(self.random.randrange(4))}

    def name(self) -> str:
        if self.random.random() < 0.1:
            return self.random.choice(["__proto__", "constructor", "requestId", "amount", "0", "00", ""])
        ranges = [(0x20, 0x7E), (0, 0x1F), (0x7F, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF)]
        picked = self.random.choices(ranges, weights=[12, 1, 1, 1, 1, 1], k=self.random.randrange(8))
        return "".join(chr(self.random.randint(*bounds)) for bounds in picked)

    def number(self) -> str:
        if self.random.random() < 0.1:
            return self.random.choice(NUMBERS)[0]
        digits = str(self.random.randrange(10 ** self.random.randint(1, 16)))
        cut = self.random.randrange(len(digits) + 1)
        text = digits if cut == len(digits) else f"{digits[:cut] or '0'}.{digits[cut:]}"
        return text.lstrip("0") if text.startswith("00") else self.random.choice(["", "", "-"]) + text

    def write(self, value: Any) -> str:
        """Returns a value in one of its many spellings."""
        space = self.random.choice(["", "", " ", "\n\t"])
        if isinstance(value, RawNumber):
            return value.text
        if isinstance(value, str):
            return '"' + "".join(map(self.write_character, value)) + '"'
        if isinstance(value, list):
            return f"[{space}" + f"{space},".join(map(self.write, value)) + f"{space}]"
        if isinstance(value, dict):
            members = list(value.items())
            self.random.shuffle(members)
            pairs = [f"{self.write(name)}{space}:{space}{self.write(member)}" for name, member in members]
            return "{" + f",{space}".join(pairs) + f"{space}}}"
        return json.dumps(value)

    def write_character(self, char: str) -> str:
        is_plain = char not in '"\\' and char >= " "
        if is_plain and self.random.random() < 0.9:
            return char
        units = char.encode("utf-16-be")
        escapes = [f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)]
        return "".join(self.random.choice([escape, escape[:2] + escape[2:].upper()]) for escape in escapes)

    def spoil(self, text: str) -> bytes:
        """Breaks one text in three somewhere."""
        body = bytearray(text.encode())
        if self.random.random() > 0.33:
            return bytes(body)
        at = self.random.randrange(len(body))
        match self.random.randrange(5):
            case 0:
                del body[at]
            case 1:
                body[at] = self.random.randrange(256)
            case 2:
                pieces = [b'"', b",", b"{", b"}", b"\\", b"\x00", b"0", b"e1", b"-", b"\xed\xa0\x80"]
                body[at:at] = self.random.choice(pieces)
            case 3:
                del body[at:]
            case 4:
                # Repeats a piece, now and then a whole member.
                end = self.random.randint(at, len(body))
                body[at:at] = body[at:end] + b","
        return bytes(body)
