"""Lists of entries in files: places for error messages, and entries that are read one by one."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from mohamjax.errors import InputError, one_line
from mohamjax.forms import Form, OpenForm, read_form
from mohamjax.io.forms import CalledForm

F = TypeVar("F", bound=Form | OpenForm)
T = TypeVar("T")


class Place:
    """A place in a file, with checks whose error messages name it."""

    def __init__(self, file: object, path: str = "") -> None:
        self.file, self.path = file, path

    def at(self, path: str) -> Place:
        """A place inside this one."""
        return Place(self.file, f"{self.path}.{path}" if self.path else path)

    def error(self, message: str, remedy: str | None) -> InputError:
        """An error at this place."""
        return InputError(message, file=self.file, item=self.path or None, remedy=remedy)

    def form(self, value: object, kind: type[F]) -> F:
        """The value at this place as an instance of its form; raises InputError."""
        return read_form(value, kind, file=self.file, where=self.path)

    def check_length(self, values: abc.Sized, length: int, of: str) -> None:
        """Raises InputError unless a list has `length` entries, one for each `of`."""
        if len(values) != length:
            raise self.error(f"has {len(values)} entries", f"give one for each {of}, {length}")

    def entry(self, key: int | str) -> Place:
        """The place of an entry of the list, or of a key of the mapping, at this place."""
        return Place(self.file, f"{self.path}[{key}]") if isinstance(key, int) else self.at(key)

    def numbers(
        self,
        entries: Sequence[int | str],
        names: abc.Mapping[str, int] | int,
        what: str,
        keys: Sequence[int | str] | None = None,
    ) -> list[int]:
        """Numbers of jobs, accelerators or resources that a file refers to by number or, if they have names, by name.

        Args:
            entries: the references in the file.
            names: numbers by name, or how many things there are.
            what: what they are, for error messages.
            keys: keys of the entries in the file; default their indices.
        """
        count = names if isinstance(names, int) else len(names)
        known = {} if isinstance(names, int) else names
        found = [known.get(entry, -1) if isinstance(entry, str) else entry for entry in entries]
        for i, (number, entry) in enumerate(zip(found, entries, strict=True)):
            if not 0 <= number < count:
                told = f"there is no {what} {entry!r}"
                raise self.entry(i if keys is None else keys[i]).error(
                    told, f"the {count} {what}s are numbered from 0" + (f", or called {_some(known)}" if known else "")
                )
        return found

    def check_names(self, names: Sequence[str], key: str = ".name") -> None:
        """Raises InputError if two entries of a list have the same name."""
        seen: dict[str, int] = {}
        for i, name in enumerate(names):
            if seen.setdefault(name, i) != i:
                told = f"{name!r} is also the name of number {seen[name]}"
                raise Place(self.file, f"{self.path}[{i}]{key}").error(told, "give every one its own name")

    def check_order(self, jobs: Sequence[int], labels: Sequence[int | str]) -> None:
        """Raises InputError for an order, of checked length, that names a job twice; `labels` are names of the jobs."""
        seen: dict[int, int] = {}
        for place, job in enumerate(jobs):
            if job in seen:
                told = f"job {labels[job]!r} stands at places {seen[job]} and {place}"
                raise self.error(told, "list every job exactly once, by priority")
            seen[job] = place


def waiting(cycle: Sequence[int], labels: Sequence[int | str]) -> str:
    """A text that says which jobs wait for each other."""
    named = [repr(labels[job]) for job in cycle]
    return f"job {named[0]} waits for itself" if len(named) == 1 else f"jobs {', '.join(named)} wait for each other"


def _some(names: abc.Iterable[str]) -> str:
    """The first five names as text."""
    listed = list(names)
    return ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")


Entry: TypeAlias = tuple[int | str, T | InputError]
"""Identifier of an entry of a file, and its value, or the error if it is broken."""

_LONGEST_IDENTIFIER = 200


def _identifier(row: object, number: int, known: abc.Mapping[str, int]) -> tuple[int | str, InputError | None]:
    """The identifier of an entry, by default its place in the file, and what is wrong with the one that it states.

    Args:
        row: the entry, as plain JSON data or an instance of its form, or an error, which is returned.
        number: its place in the file.
        known: places of the entries before it, by identifier as text.
    """
    if isinstance(row, InputError):
        return number, row
    if isinstance(row, CalledForm):
        given = row.design_id, row.name
    else:
        given = (row.get("design_id"), row.get("name")) if isinstance(row, abc.Mapping) else ()
    name = next((one for one in given if one is not None), number)
    text = isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= _LONGEST_IDENTIFIER
    if not text and (isinstance(name, bool) or not isinstance(name, int)):
        told = one_line(repr(name))[:40]
        told = f"its identifier {told} is neither a whole number nor a text of one short line"
        return number, InputError(told, remedy="write one of the two")
    if str(name) in known:
        told = f"its identifier {name} is also that of the entry at place {known[str(name)]} of the file"
        return name, InputError(told, remedy="give every one its own")
    return name, None


def identified(
    rows: Iterable[object], start: int = 0, known: dict[str, int] | None = None
) -> Iterator[tuple[int | str, object, InputError | None]]:
    """Entries of a file with their identifiers.

    The identifier is the `design_id` or the `name` of the entry, or its place if it states neither.

    Args:
        rows: entries, as plain JSON data or instances of their forms; or an `InputError` for an unreadable entry.
        start: place of the first entry in the file.
        known: places of the entries before these, by identifier as text; these entries are added to it.

    Yields:
        The identifier, the entry, and what is wrong with the identifier or the unreadable entry, else None.
    """
    known = {} if known is None else known
    for i, row in enumerate(rows, start):
        name, fault = _identifier(row, i, known)
        known.setdefault(str(name), i)
        yield name, row, fault


def entries_of(
    document: abc.Mapping[str, Any], key: str, file: object, read: Callable[[object, Place], T]
) -> Iterator[Entry[T]]:
    """Reads the entries of a list of a document one by one, so that a broken one does not affect the others."""
    for i, (name, row, fault) in enumerate(identified(document[key])):
        at = Place(file, f"{key}[{i}]")
        try:
            if fault is not None:  # for an unreadable entry, its item is the line
                raise InputError(fault.message, file=file, item=fault.item or at.path, remedy=fault.remedy)
            value = read(row, at)
        except InputError as error:
            value = error
        yield name, value


def sound_entries(entries: Iterable[Entry[T]]) -> tuple[list[str], list[T]]:
    """Names and values of entries; raises the error of the first broken one."""
    names, values = [], []
    for name, value in entries:
        if isinstance(value, InputError):
            raise value
        names.append(str(name))
        values.append(value)
    return names, values


def without_entries(document: abc.Mapping[str, Any], key: str) -> dict[str, Any]:
    """A document with an empty list of entries, as these are read one by one."""
    return {**document, key: []} if isinstance(document.get(key), list) else dict(document)
