"""Lists of entries in files: places that complaints name, and entries that are read one by one."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from mohamjax.errors import InputError
from mohamjax.forms import Form, OpenForm, read_form

F = TypeVar("F", bound=Form | OpenForm)
T = TypeVar("T")


class Place:
    """A place in a file: complaints that name it."""

    def __init__(self, file: object, path: str = "") -> None:
        self.file, self.path = file, path

    def at(self, path: str) -> Place:
        """A place in this one."""
        return Place(self.file, f"{self.path}.{path}" if self.path else path)

    def error(self, message: str, remedy: str) -> InputError:
        """A complaint about this place."""
        return InputError(message, file=self.file, item=self.path or None, remedy=remedy)

    def form(self, value: object, kind: type[F]) -> F:
        """What stands there, by its form."""
        return read_form(value, kind, file=self.file, where=self.path)

    def check_length(self, values: abc.Sized, length: int, of: str) -> None:
        """Refuses a list that has not one entry for each of something."""
        if len(values) != length:
            raise self.error(f"has {len(values)} entries", f"give one for each {of}, {length}")

    def numbers(self, entries: Sequence[int | str], names: abc.Mapping[str, int] | int, what: str) -> list[int]:
        """Numbers of jobs, accelerators or resources that are referred to by number, or also by name.

        Args:
            entries: what the file says.
            names: number by name, or how many there are.
            what: they are.
        """
        count = names if isinstance(names, int) else len(names)
        known = {} if isinstance(names, int) else names
        found = [known.get(entry, -1) if isinstance(entry, str) else entry for entry in entries]
        for i, (number, entry) in enumerate(zip(found, entries, strict=True)):
            if not 0 <= number < count:
                told = f"there is no {what} {entry!r}"
                raise Place(self.file, f"{self.path}[{i}]").error(
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

    def check_order(self, jobs: Sequence[int]) -> None:
        """Refuses an order that does not have every job once."""
        seen: dict[int, int] = {}
        for place, job in enumerate(jobs):
            if job in seen:
                raise self.error(
                    f"job {job} stands at places {seen[job]} and {place}", "list every job exactly once, by priority"
                )
            seen[job] = place


def _some(names: abc.Iterable[str]) -> str:
    """The first names of many."""
    listed = list(names)
    return ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")


Entry: TypeAlias = tuple[int | str, T | InputError]
"""Name of an entry of a file, its place where it states none, and what is read of it, or why it is broken."""


def entries_of(
    document: abc.Mapping[str, Any], key: str, file: object, read: Callable[[object, Place], T]
) -> Iterator[Entry[T]]:
    """The entries of a list of a document, one by one, so that a broken one spoils no other."""
    places: dict[object, int] = {}
    for i, row in enumerate(document[key]):
        at, name = Place(file, f"{key}[{i}]"), row.get("name") if isinstance(row, abc.Mapping) else None
        try:
            value = read(row, at)
            if places.setdefault(name, i) != i:
                told = f"{name!r} is also the name of number {places[name]}"
                raise at.at("name").error(told, "give every one its own name")
        except InputError as error:
            value = error
        yield name if isinstance(name, str) and name else i, value


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
