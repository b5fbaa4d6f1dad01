"""A pickle reader that cannot execute anything.

This is a small pickle machine of our own and not a subclass of ``pickle.Unpickler``, for three
reasons: the C unpickler allocates what a five-byte memo opcode asks for (gigabytes from a file of
a few bytes) before any hook runs; an error here can name the byte; and the lists of millions of
integer pairs of MM-Graph are read into int64 blocks without a Python object per number.

A global in the stream is only ever a key into a table of our own stand-ins: nothing is imported.
Strings of protocols 0 to 2 (Python 2 ``str``) come out as ``bytes``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from maghub.errors import MaghubError

from ._files import fail

_MARK = object()
# Runs of small integers, or of pairs of them (as lists or tuples), inside one batch of a list.
_INT = rb"(?:K.|M..|J....)"
_MEMO = rb"(?:q.|r....)?"
_PAIR = rb"(?:\]%s\(%s%se|%s%s\x86%s)" % (_MEMO, _INT, _INT, _INT, _INT, _MEMO)
_RUN_OF_PAIRS = re.compile(rb"%s{16,}+" % _PAIR, re.DOTALL)
_RUN_OF_INTS = re.compile(rb"%s{16,}+(?![\x85-\x87])" % _INT, re.DOTALL)
_EACH_INT = re.compile(_INT, re.DOTALL)
_EACH_PAIR = re.compile(rb"(?:\]%s\()?(%s)(%s)(?:e|\x86%s)" % (_MEMO, _INT, _INT, _MEMO), re.DOTALL)


class Refused(ValueError):
    """Raised by a stand-in for what it will not build; the machine adds file and byte."""


class Token:
    """A global that has a meaning for some stand-in but must not be called itself."""

    def __init__(self, name: str) -> None:
        self.name = name


class StandIn:
    """An object under construction; BUILD gives it its state."""

    def build(self, state: Any) -> None:
        """Take over the pickled state, or refuse it."""
        raise Refused("refusing the state of an object")


Handlers = Mapping[tuple[str, str], Callable[..., Any] | Token]


class _Lost(Exception):
    """The pickle refers to an object inside a run that was read as a block."""


def load_pickle(
    path: object,
    data: memoryview,
    handlers: Handlers | None = None,
    *,
    start: int = 0,
    runs: bool = False,
    persistent: Callable[[Any], Any] | None = None,
) -> tuple[Any, int]:
    """Read one pickle from a buffer.

    Args:
        path: The file, for errors.
        data: The bytes; they may go on after the pickle ends.
        handlers: What each allowed global stands for; any other is refused.
        start: Where in ``data`` the pickle begins.
        runs: Let integers in lists come out as int64 blocks; read those with ``int_array``.
        persistent: What a persistent id stands for (torch storages); refused if None.

    Returns:
        The object and the position after it.
    """
    try:
        machine = _Machine(path, data, handlers or {}, start, runs, persistent)
        return machine.run(), machine.at
    except _Lost:
        machine = _Machine(path, data, handlers or {}, start, False, persistent)
        return machine.run(), machine.at


class _Machine:
    def __init__(
        self,
        path: object,
        data: memoryview,
        handlers: Handlers,
        start: int,
        runs: bool,
        persistent: Callable[[Any], Any] | None,
    ) -> None:
        self.path, self.data, self.at = path, data, start
        self.handlers, self.runs, self.persistent = handlers, runs, persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        # One byte can ask for 56 bytes of list or 100 of memo: allow what real files need of them.
        self.budget = 4096 + (len(data) - start) // 4

    def run(self) -> Any:
        data, opcodes = self.data, _OPCODES
        try:
            while True:
                opcode = data[self.at]
                self.at += 1
                if opcode == 0x2E:  # STOP
                    return self.pop()
                if opcode not in opcodes:
                    raise Refused(f"not a pickle, or one with the refused opcode {opcode:#04x}")
                opcodes[opcode](self)
        except Refused as error:
            raise self.fail(str(error)) from None
        except IndexError:
            raise self.fail("the pickle is truncated or damaged") from None
        except (ValueError, TypeError, OverflowError, struct.error):
            raise self.fail("the pickle is damaged") from None

    def fail(self, what: str) -> MaghubError:
        return fail(self.path, what, self.at, "nothing in it was executed")

    # Reading from the stream

    def take(self, size: int) -> memoryview:
        if size < 0 or size > len(self.data) - self.at:
            raise Refused(f"the pickle is truncated: {size} bytes needed")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def line(self) -> bytes:
        text = bytes(self.data[self.at : self.at + 4096])
        end = text.index(b"\n")
        self.at += end + 1
        return text[:end]

    # The stack

    def pop(self) -> Any:
        item = self.stack.pop()
        if item is _MARK:
            raise IndexError
        return item

    def top(self, kind: type) -> Any:
        return of_type(self.stack[-1], kind)

    def pop_to_mark(self) -> list[Any]:
        stack = self.stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise IndexError
        items = stack[at + 1 :]
        del stack[at:]
        return items

    def push(self, item: Any) -> None:
        self.stack.append(item)

    def spend(self) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise Refused("more objects than a pickle of this size can mean")

    def push_object(self, item: Any) -> None:
        self.spend()
        self.push(item)

    # Opcodes with more to them than one expression

    def mark(self) -> None:
        in_list = self.runs and self.stack and type(self.stack[-1]) is list
        self.push(_MARK)
        if in_list:
            for pattern, decode in ((_RUN_OF_INTS, _ints), (_RUN_OF_PAIRS, _pairs)):
                if match := pattern.match(self.data, self.at):
                    self.push(decode(match.group()))
                    self.at = match.end()
                    return

    def extend(self) -> None:
        items = self.pop_to_mark()
        self.top(list).extend(items)

    def append(self) -> None:
        item = self.pop()
        self.top(list).append(item)

    def set_items(self, items: list[Any]) -> None:
        target = self.top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (int, str, bytes):  # hashing a deep tuple overflows the C stack
                raise Refused(f"a dictionary key of type {type(key).__name__}")
            target[key] = value

    def set_item(self) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def make_dict(self) -> None:
        items = self.pop_to_mark()
        self.push_object({})
        self.set_items(items)

    def text(self, size: int) -> None:
        raw = self.take(self.number(size))
        self.push(str(raw, "utf-8", "surrogatepass"))

    def put(self, index: int) -> None:
        self.spend()
        if self.stack[-1] is _MARK:
            raise IndexError
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        if index not in self.memo:
            if self.runs:
                raise _Lost
            raise Refused("the pickle refers to an object that it never stored")
        self.push(self.memo[index])

    def tuple_of(self, count: int) -> None:
        items = [self.pop() for _ in range(count)]
        self.push_object(tuple(reversed(items)))

    def number_line(self) -> None:
        line = self.line().rstrip(b"L")
        if len(line) > 64:
            raise Refused("a number of more than 64 digits")
        self.push({b"00": False, b"01": True}[line] if line in (b"00", b"01") else int(line))

    def lookup(self, module: str, name: str) -> None:
        if (module, name) not in self.handlers:
            raise Refused(f"refusing the object {module[:60]}.{name[:60]} inside a pickle")
        self.push(self.handlers[module, name])

    def global_(self) -> None:
        module, name = self.line(), self.line()
        self.lookup(module.decode(), name.decode())

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        self.lookup(of_type(module, str), of_type(name, str))

    def call(self) -> None:
        arguments, function = self.pop(), self.pop()
        if type(arguments) is not tuple or not callable(function):
            raise Refused("refusing a call inside a pickle")
        self.push_object(function(*arguments))

    def build(self) -> None:
        state = self.pop()
        if not isinstance(self.stack[-1], StandIn):
            raise Refused("refusing the state of an object inside a pickle")
        self.stack[-1].build(state)

    def persistent_id(self) -> None:
        if self.persistent is None:
            raise Refused("refusing a persistent id inside a pickle")
        self.push(self.persistent(self.pop()))


_OPCODES: dict[int, Callable[[_Machine], Any]] = {
    code[0]: action
    for code, action in {
        b"\x80": lambda m: m.take(1), b"\x95": lambda m: m.take(8),  # PROTO, FRAME
        b"(": _Machine.mark, b"0": lambda m: m.stack.pop(), b"1": _Machine.pop_to_mark,
        b"N": lambda m: m.push(None), b"\x88": lambda m: m.push(True),
        b"\x89": lambda m: m.push(False),
        b"K": lambda m: m.push(m.number(1)), b"M": lambda m: m.push(m.number(2)),
        b"J": lambda m: m.push(m.number(4, True)), b"I": _Machine.number_line,
        b"L": _Machine.number_line, b"\x8a": lambda m: m.push(m.number(m.number(1), True)),
        b"G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
        b"U": lambda m: m.push(bytes(m.take(m.number(1)))),
        b"T": lambda m: m.push(bytes(m.take(m.number(4, True)))),
        b"C": lambda m: m.push(bytes(m.take(m.number(1)))),
        b"B": lambda m: m.push(bytes(m.take(m.number(4)))),
        b"\x8e": lambda m: m.push(bytes(m.take(m.number(8)))),
        b"\x8c": lambda m: m.text(1), b"X": lambda m: m.text(4), b"\x8d": lambda m: m.text(8),
        b"]": lambda m: m.push_object([]), b"l": lambda m: m.push_object(m.pop_to_mark()),
        b"a": _Machine.append, b"e": _Machine.extend,
        b")": lambda m: m.push(()), b"t": lambda m: m.push_object(tuple(m.pop_to_mark())),
        b"\x85": lambda m: m.tuple_of(1), b"\x86": lambda m: m.tuple_of(2),
        b"\x87": lambda m: m.tuple_of(3),
        b"}": lambda m: m.push_object({}), b"d": _Machine.make_dict,
        b"s": _Machine.set_item, b"u": lambda m: m.set_items(m.pop_to_mark()),
        b"p": lambda m: m.put(int(m.line())), b"q": lambda m: m.put(m.number(1)),
        b"r": lambda m: m.put(m.number(4)), b"\x94": lambda m: m.put(len(m.memo)),
        b"g": lambda m: m.get(int(m.line())), b"h": lambda m: m.get(m.number(1)),
        b"j": lambda m: m.get(m.number(4)),
        b"c": _Machine.global_, b"\x93": _Machine.stack_global,
        b"R": _Machine.call, b"\x81": _Machine.call, b"b": _Machine.build,
        b"Q": _Machine.persistent_id,
    }.items()
}  # fmt: skip


def of_type(item: Any, kind: type) -> Any:
    if type(item) is not kind:
        raise Refused(f"expected a {kind.__name__}, found a {type(item).__name__}")
    return item


def _int(token: bytes) -> int:
    return int.from_bytes(token[1:], "little", signed=token[0] == 0x4A)


def _ints(run: bytes) -> np.ndarray:
    if run[::2] == b"K" * (len(run) // 2):  # only bytes, e.g. labels
        return np.frombuffer(run, dtype=np.uint8)[1::2].astype(np.int64)
    return np.array([_int(token) for token in _EACH_INT.findall(run)], dtype=np.int64)


def _pairs(run: bytes) -> np.ndarray:
    numbers = [_int(token) for pair in _EACH_PAIR.findall(run) for token in pair]
    return np.array(numbers, dtype=np.int64).reshape(-1, 2)
