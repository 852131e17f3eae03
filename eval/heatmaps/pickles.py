"""Reader of pickles that runs no code from the file; it calls only functions that the caller allows."""

from __future__ import annotations

import io
import pickletools  # nosec B403
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class BadPickleError(Exception):
    """Error in a pickle; its message is a clause that does not name the file."""


@dataclass(frozen=True)
class Name:
    """The name of a Python object in a pickle, kept as text; the object itself is never looked up."""

    text: str


# The function called for each allowed name; ``None``: the name may appear but not be called.
Names = Mapping[str, Callable[..., Any] | None]


def play(
    stream: io.BytesIO,
    names: Names,
    find: Callable[[Any], Any] | None = None,
    fill: Callable[[Any, Any], None] | None = None,
) -> Any:
    """Return the value of the next pickle in ``stream``; afterwards the stream is at the end of that pickle.

    - ``names``: the allowed names and their functions.
    - ``find``: a function that returns the object for a persistent id.
    - ``fill``: a function that sets the state of an object (the operation BUILD).

    Raise :class:`BadPickleError` for refused contents, and one of Python's usual errors for a damaged pickle.
    """
    return _Machine(stream, names, find or _refuse_id, fill or _refuse_state).run()


def short(value: Any) -> str:
    """Return ``value`` cut to one line if it is a text, otherwise the name of its type."""
    text = value if isinstance(value, str) else f"a {type(value).__name__}"
    # Other objects are not printed: printing an object from a hostile file might never end.
    return text if len(text) <= 60 else text[:59] + "…"


def _refuse_id(key: Any) -> Any:
    raise BadPickleError(f"refers to data outside itself ({short(key)}); write it with pickle.dump or torch.save.")


def _refuse_state(made: Any, state: Any) -> None:
    raise BadPickleError(f"sets the state of {short(made)}, which no map needs, so the file was not read.")


_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NUMBERS_AND_TEXT = {
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "LONG", "FLOAT", "BINFLOAT", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
    "BINSTRING", "SHORT_BINSTRING", "STRING",
}  # fmt: skip
_KEYS = (str, int, float, bytes)


@dataclass
class _Machine:
    """Interpreter of one pickle."""

    stream: io.BytesIO
    names: Names
    find: Callable[[Any], Any]
    fill: Callable[[Any, Any], None]
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def run(self) -> Any:
        """Return the pickle's value; afterwards the stream is at the end of the pickle."""
        for operation, argument, _ in pickletools.genops(self.stream):
            if operation.name == "STOP":
                return self.stack.pop()
            self._play(operation.name, argument)
        raise BadPickleError("is cut off before the pickle's end; copy the file again.")

    def _play(self, name: str, argument: Any) -> None:
        """Perform one operation on the stack; ``name`` is its name in the module pickletools."""
        stack = self.stack
        if name in _NUMBERS_AND_TEXT:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _CONTAINERS:
            _CONTAINERS[name](self)
        elif name == "GLOBAL":
            self._name(*argument.split(" ", 1))
        elif name == "STACK_GLOBAL":
            module, attribute = self._pop(2)
            self._name(module, attribute)
        elif name == "REDUCE":
            called, arguments = self._pop(2)
            stack.append(self._call(called, arguments))
        elif name == "BUILD":
            state = stack.pop()
            self.fill(stack[-1], state)
        elif name == "BINPERSID":
            stack.append(self.find(stack.pop()))
        elif name not in ("PROTO", "FRAME"):
            raise BadPickleError(f"contains the pickle operation {name}, which no map needs, so the file was not read.")

    def _pop(self, count: int) -> list[Any]:
        values = self.stack[-count:] if count else []
        if len(values) < count or any(value is _MARK for value in values):
            raise IndexError("too few objects on the stack")
        del self.stack[len(self.stack) - count :]
        return values

    def since_mark(self) -> list[Any]:
        """Remove and return the objects on the stack since the last mark, and remove the mark."""
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise IndexError("no mark on the stack")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def set_items(self, pairs: list[Any]) -> None:
        """Put keys and values into the dict on the stack."""
        target = self.stack[-1]
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, _KEYS):
                raise BadPickleError(
                    "has a dict with a key that is neither text nor a number, which no map needs, so "
                    "the file was not read."
                )
            if not isinstance(target, dict):
                raise TypeError("no dict to put items into")
            target[key] = value

    def extend(self, values: list[Any]) -> None:
        """Append to the list on the stack."""
        if not isinstance(self.stack[-1], list):
            raise TypeError("no list to append to")
        self.stack[-1].extend(values)

    def _name(self, module: Any, attribute: Any) -> None:
        text = f"{module}.{attribute}" if isinstance(module, str) and isinstance(attribute, str) else "no text"
        if text not in self.names:
            raise BadPickleError(
                f"names the Python object '{short(text)}', which no map needs, so the file was not read."
            )
        self.stack.append(Name(text))

    def _call(self, called: Any, arguments: Any) -> Any:
        """Return the result of the caller's function for an allowed name; the Python function of this name is never
        called.
        """
        if not isinstance(called, Name) or not isinstance(arguments, tuple):
            raise TypeError("a call of an object that is not a name")
        make = self.names[called.text]
        if make is None:
            raise BadPickleError(f"calls '{called.text}', which is not allowed, so the file was not read.")
        return make(*arguments)


_CONTAINERS: dict[str, Callable[[_Machine], None]] = {
    "EMPTY_DICT": lambda machine: machine.stack.append({}),
    "EMPTY_LIST": lambda machine: machine.stack.append([]),
    "EMPTY_TUPLE": lambda machine: machine.stack.append(()),
    "TUPLE": lambda machine: machine.stack.append(tuple(machine.since_mark())),
    "TUPLE1": lambda machine: machine.stack.append(tuple(machine._pop(1))),
    "TUPLE2": lambda machine: machine.stack.append(tuple(machine._pop(2))),
    "TUPLE3": lambda machine: machine.stack.append(tuple(machine._pop(3))),
    "LIST": lambda machine: machine.stack.append(machine.since_mark()),
    "SETITEM": lambda machine: machine.set_items(machine._pop(2)),
    "SETITEMS": lambda machine: machine.set_items(machine.since_mark()),
    "APPEND": lambda machine: machine.extend(machine._pop(1)),
    "APPENDS": lambda machine: machine.extend(machine.since_mark()),
}
