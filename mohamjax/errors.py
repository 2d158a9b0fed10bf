"""Errors that a user can fix. Any other exception that escapes is an error in mohamjax itself."""

from __future__ import annotations

import dataclasses

_LONGEST = 400  # characters of a message, file or item: room for any name, but not for a file's contents
_LONGEST_REMEDY = 700  # of a remedy, which may list choices


def one_line(text: str) -> str:
    """Returns the text with every run of white space, line breaks included, replaced by one space."""
    return " ".join(text.split())


def _shortened(text: object, longest: int = _LONGEST) -> str:
    """Returns the text on one line, without the middle of a long one: contents of files may be of any length."""
    line = one_line(str(text))
    return line if len(line) <= longest else f"{line[: longest - 100]} ... {line[-90:]}"


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of a Python function that an error is about.

    Attributes:
        name: name of the argument.
        key: the key that is meant, if the argument is a dictionary.
        value: the value, if the message states one.
    """

    name: str
    key: str | None = None
    value: object = None

    def __str__(self) -> str:
        """The argument as it is written in Python: `name[key]=value`."""
        key = "" if self.key is None else f"[{self.key}]"
        return f"{self.name}{key}" if self.value is None else f"{self.name}{key}={self.value}"


class InputError(ValueError):
    """Bad input; the message is one line that names the file, the item and the remedy.

    The command line prints it without a traceback and exits with code 2. Long parts lose their middle, so that any
    value can be quoted.

    Args:
        message: What is wrong, without a trailing full stop.
        file: The file or other source that it is in.
        item: The node, layer, key, level or row inside the file.
        argument: The argument of the Python function that is wrong, instead of an item. The command line shows its
            option.
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
        """The message without the file, for a row that names the file already."""
        return str(self).removeprefix(f"{self.file}: ") if self.file else str(self)


def wrong_type(value: object, argument: str, remedy: str) -> InputError:
    """Returns the error for an argument of a Python function that has the wrong type."""
    return InputError(f"is of the type {type(value).__name__}", argument=argument, remedy=remedy)
