"""Errors that a user can mend. Everything else that escapes is an error in mohamjax itself."""

from __future__ import annotations

import dataclasses

_LONGEST = 400  # characters of a message, file, item or remedy: room for any name, none for a file's contents
_LONGEST_REMEDY = 700  # of a remedy, which may list choices


def one_line(text: str) -> str:
    """The text with every run of white space, line breaks included, as one space."""
    return " ".join(text.split())


def _shortened(text: object, longest: int = _LONGEST) -> str:
    """One line, the middle of a long one left out: what a file holds may be of any length."""
    line = one_line(str(text))
    return line if len(line) <= longest else f"{line[: longest - 100]} ... {line[-90:]}"


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of a Python function that a complaint is about.

    Attributes:
        name: what the function calls it.
        key: the key in question, where the argument is a dictionary.
        value: what was given, where the complaint says it.
    """

    name: str
    key: str | None = None
    value: object = None

    def __str__(self) -> str:
        """The argument as it is written in Python, as in `name[key]=value`."""
        key = "" if self.key is None else f"[{self.key}]"
        return f"{self.name}{key}" if self.value is None else f"{self.name}{key}={self.value}"


class InputError(ValueError):
    """Bad input: one line that names the file, the item and the remedy.

    The command line prints it without a traceback and exits with code 2. Long parts lose their middle, so that values
    can be quoted whatever they are.

    Args:
        message: What is wrong, without a trailing full stop.
        file: The file or other source that it is in.
        item: The node, layer, key, level or row inside the file.
        argument: The argument of the Python function that is wrong, in the place of an item. The command line shows the
            option that it stands for.
        remedy: What the user can do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        file: object = None,
        item: object = None,
        argument: str | Argument | None = None,
        remedy: str | None = None,
    ) -> None:
        self.message = _shortened(message)
        self.argument = Argument(argument) if isinstance(argument, str) else argument
        if self.argument is not None:
            item = f"argument `{self.argument}`"
        self.file = None if file is None else _shortened(file)
        self.item = None if item is None else _shortened(item)
        self.remedy = None if remedy is None else _shortened(remedy, _LONGEST_REMEDY)
        where = ": ".join(part for part in (self.file, self.item) if part)
        text = f"{where}: {self.message}" if where else self.message
        if remedy:
            text = f"{text}; {self.remedy}"
        super().__init__(text)

    @property
    def reason(self) -> str:
        """The complaint without its file: what stands in a row that names the file already."""
        return str(self).removeprefix(f"{self.file}: ") if self.file else str(self)


def wrong_type(value: object, argument: str, remedy: str) -> InputError:
    """The complaint about an argument of a Python function that is of another type."""
    return InputError(f"is of the type {type(value).__name__}", argument=argument, remedy=remedy)
