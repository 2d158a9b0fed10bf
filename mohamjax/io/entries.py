"""Lists of entries in files: places that complaints name, and entries that are read one by one."""

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
    """A place in a file: complaints that name it."""

    def __init__(self, file: object, path: str = "") -> None:
        self.file, self.path = file, path

    def at(self, path: str) -> Place:
        """A place in this one."""
        return Place(self.file, f"{self.path}.{path}" if self.path else path)

    def error(self, message: str, remedy: str | None) -> InputError:
        """A complaint about this place."""
        return InputError(message, file=self.file, item=self.path or None, remedy=remedy)

    def form(self, value: object, kind: type[F]) -> F:
        """What stands there, by its form."""
        return read_form(value, kind, file=self.file, where=self.path)

    def check_length(self, values: abc.Sized, length: int, of: str) -> None:
        """Refuses a list that has not one entry for each of something."""
        if len(values) != length:
            raise self.error(f"has {len(values)} entries", f"give one for each {of}, {length}")

    def entry(self, key: int | str) -> Place:
        """The place of an entry of the list, or of a key of the mapping, that stands here."""
        return Place(self.file, f"{self.path}[{key}]") if isinstance(key, int) else self.at(key)

    def numbers(
        self,
        entries: Sequence[int | str],
        names: abc.Mapping[str, int] | int,
        what: str,
        keys: Sequence[int | str] | None = None,
    ) -> list[int]:
        """Numbers of jobs, accelerators or resources that are referred to by number, or also by name.

        Args:
            entries: what the file says.
            names: number by name, or how many there are.
            what: they are.
            keys: of the entries in the file; default their places.
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
        """Refuses names that come twice, of entries of a list."""
        seen: dict[str, int] = {}
        for i, name in enumerate(names):
            if seen.setdefault(name, i) != i:
                told = f"{name!r} is also the name of number {seen[name]}"
                raise Place(self.file, f"{self.path}[{i}]{key}").error(told, "give every one its own name")

    def check_order(self, jobs: Sequence[int], labels: Sequence[int | str]) -> None:
        """Refuses an order that does not have every job once; `labels` are what the jobs are called."""
        seen: dict[int, int] = {}
        for place, job in enumerate(jobs):
            if job in seen:
                told = f"job {labels[job]!r} stands at places {seen[job]} and {place}"
                raise self.error(told, "list every job exactly once, by priority")
            seen[job] = place


def waiting(cycle: Sequence[int], labels: Sequence[int | str]) -> str:
    """That jobs wait for each other, with what they are called."""
    named = [repr(labels[job]) for job in cycle]
    return f"job {named[0]} waits for itself" if len(named) == 1 else f"jobs {', '.join(named)} wait for each other"


def _some(names: abc.Iterable[str]) -> str:
    """The first names of many."""
    listed = list(names)
    return ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")


Entry: TypeAlias = tuple[int | str, T | InputError]
"""Identifier of an entry of a file, and what is read of it, or why it is broken."""

_LONGEST_IDENTIFIER = 200


def _identifier(row: object, number: int, known: abc.Mapping[str, int]) -> tuple[int | str, InputError | None]:
    """What an entry is called, and why it cannot be called what its file says; its place where it says nothing.

    Args:
        row: the entry, as JSON has it or by its form.
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
    """Entries of a file with their identifiers, each as its identifier, the entry, and what is wrong with the first.

    The identifier is the `design_id` or the `name` of the entry, or its place where it states neither.

    Args:
        rows: entries, as JSON has them or by their forms; or why there is none (`InputError`), which is then wrong with
            it.
        start: place of the first one in the file.
        known: places of the entries before them, by identifier as text; these are added to it.
    """
    known = {} if known is None else known
    for i, row in enumerate(rows, start):
        name, fault = _identifier(row, i, known)
        known.setdefault(str(name), i)
        yield name, row, fault


def entries_of(
    document: abc.Mapping[str, Any], key: str, file: object, read: Callable[[object, Place], T]
) -> Iterator[Entry[T]]:
    """The entries of a list of a document, one by one, so that a broken one spoils no other."""
    for i, (name, row, fault) in enumerate(identified(document[key])):
        at = Place(file, f"{key}[{i}]")
        try:
            if fault is not None:  # of one that could not be read, the item is its line
                raise InputError(fault.message, file=file, item=fault.item or at.path, remedy=fault.remedy)
            value = read(row, at)
        except InputError as error:
            value = error
        yield name, value


def sound_entries(entries: Iterable[Entry[T]]) -> tuple[list[str], list[T]]:
    """Names of entries and what is read of them; raises the complaint of the first that is broken."""
    names, values = [], []
    for name, value in entries:
        if isinstance(value, InputError):
            raise value
        names.append(str(name))
        values.append(value)
    return names, values


def without_entries(document: abc.Mapping[str, Any], key: str) -> dict[str, Any]:
    """A document with its entries left out, which are read one by one."""
    return {**document, key: []} if isinstance(document.get(key), list) else dict(document)
