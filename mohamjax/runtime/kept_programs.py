"""Programs that are traced once: the lowered program is kept on disk for the next process.

JAX's own cache keeps compiled programs, but looks them up by the lowered program, which Python takes seconds to make
for the models of this package. `kept_jit` keeps the lowered program too (`jax.export`: StableHLO) in a folder beside
the cache. The second `mohamjax search ar-vr --budget tiny` on a machine then takes 38 % less time (11.8 instead of
19.1 s on two cores); the first, which writes the programs, takes 11 % more (58.6 instead of 53.0 s;
`experiments/results/saved_seconds.md`).

A kept program is used only if all that decides it is the same: the code of this package, the versions of JAX, jaxlib,
NumPy and Python, JAX's settings, the platform, shapes and dtypes of all arguments, and static arguments. Their hash is
the file's name, and the file begins with a hash of its content; if a file is damaged or cannot be read, the program is
traced anew. Static arguments may hold functions of this package, such as the operators of a search. The hash does not
cover functions of other packages, so programs with those are not kept. Nothing is read or written if the last
look at the sources (`code_unchanged`) found a change since this process began to import them, or in a context manager
of JAX other than double precision. Files are pickles, so the folder must be the user's own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import os
import pathlib
import pickle
import re
import threading
import time
import types
from collections import abc
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import core as jax_core
from jax.stages import Wrapped

from mohamjax.runtime.code_hash import code_hash, code_unchanged, of_this_package
from mohamjax.runtime.part_files import is_abandoned, part_of, target_of
from mohamjax.runtime.platforms import Options, accelerated, as_usual, with_kernels
from mohamjax.runtime.platforms import compiler_options as platform_options
from mohamjax.runtime.struct import is_traced, tracing

_IDLE = ("jax_compilation_cache", "jax_persistent_cache", "jax_enable_compilation_cache", "jax_log", "jax_explain")
"""Prefixes of the names of settings that do not affect a program."""

_UNUSED = 30 * 86400
"""Seconds without use after which a file is deleted."""

MOST_BYTES = 200_000_000
"""Bytes that all files together may take; beyond this, the least recently used files are deleted."""

_config: Any = jax.config  # settings are attributes that the type checker does not know

_trace_context: Callable[[], Hashable] | None = getattr(
    importlib.import_module("jax._src.config"), "trace_context", None
)
"""Key by which `jax.jit` itself distinguishes programs of a thread: settings, meshes and all other contexts.

It has no public name in JAX, but our own list of contexts would be right only until JAX adds another one. In a version
of JAX without it nothing is kept: numbers stay the same, and only the time saved is lost;
`tests/test_kept_programs.py` shows it.
"""

Result = TypeVar("Result")
Structure = Any
"""Structure of a pytree: JAX's `PyTreeDef`, which is a variable to type checkers."""

Leaf = jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct
Static = abc.Mapping[str, object]
Name = str | tuple["Name", ...]
"""A name that is the same in every process."""

Shapes = tuple[tuple[tuple[int, ...], str], ...]
"""Shapes and dtypes of the leaves of all arguments."""

_folder: pathlib.Path | None = None


def keep_in(folder: pathlib.Path | None) -> None:
    """Sets the folder in which programs are kept from now on; None keeps none."""
    global _folder
    _folder = folder


def context_of_trace() -> tuple[Hashable, ...]:
    """Key that distinguishes programs of this thread beside their arguments."""
    assert _trace_context is not None
    return _trace_context(), _config.jax_default_prng_impl


def _in_no_context() -> bool:
    """Whether this thread's context is that of a new thread of the process, apart from double precision.

    A context such as a mesh is not among the settings that a file's name is made from.
    """
    own, wide, bare = context_of_trace(), bool(_config.jax_enable_x64), list[Hashable]()

    def find() -> None:
        with jax.enable_x64(wide):
            bare.append(context_of_trace())

    thread = threading.Thread(target=find)
    thread.start()
    thread.join()
    return bare == [own]


def _machine() -> tuple[str, str]:
    """Platform and kind of the first device, because kernels may be for one kind of GPU."""
    return jax.default_backend(), jax.local_devices()[0].device_kind


def compile_settings() -> str:
    """JAX's settings that may affect a program, as text, with the device and `XLA_FLAGS`."""
    known = {name: value for name, value in _config.values.items() if not name.startswith(_IDLE)}
    return repr((sorted(known.items()), _config.jax_enable_x64, _machine(), os.environ.get("XLA_FLAGS", "")))


def _plain(leaf: object) -> bool:
    """Whether shape and dtype alone describe an argument: an array on the first device, or a shape."""
    if isinstance(leaf, jax_core.Tracer) or getattr(leaf, "weak_type", False):
        return False
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf.sharding is None
    return isinstance(leaf, np.ndarray | np.generic) or (
        isinstance(leaf, jax.Array) and leaf.devices() == {jax.local_devices()[0]}
    )


def _dtype(leaf: Leaf) -> str:
    """The dtype that an argument has inside a program."""
    keys = jnp.issubdtype(leaf.dtype, jax.dtypes.extended)
    return str(leaf.dtype if keys else jax.dtypes.canonicalize_dtype(leaf.dtype))


@functools.cache
def _has_option(name: str, value: bool | int | str) -> bool:
    """Whether the installed XLA has a compiler option; new releases drop some options, and then refuse them."""
    try:
        asked: Options = {name: value}
        jax.jit(lambda: 0).lower().compile(compiler_options=asked)
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return False
    return True


class _NamelessError(Exception):
    """Raised for a value without a name that is the same in every process."""


def name_of(value: object) -> Name:
    """Name of a static argument, the same in every process; arguments of different programs have different names.

    Raises:
        _NamelessError: there is no such name, as for functions and classes of other packages.
    """
    if isinstance(value, str) and type(value) is not str:
        raise _NamelessError(type(value).__qualname__)  # it may hold more than its text, such as a function
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.dtype | np.generic):
        return type(value).__name__, repr(value)
    if isinstance(value, tuple | list):
        return type(value).__name__, *map(name_of, value)
    if isinstance(value, dict):
        return "dict", *((name_of(key), name_of(item)) for key, item in value.items())
    if isinstance(value, functools.partial):
        return "partial", name_of(value.func), name_of(value.args), name_of(value.keywords)
    if isinstance(value, types.MethodType):
        return "method", name_of(value.__self__), name_of(value.__func__)
    if isinstance(value, types.FunctionType):
        return _name_of_function(value)
    if isinstance(value, type):
        if not of_this_package(value.__module__) and value.__module__ not in ("builtins", "numpy", "jax.numpy"):
            raise _NamelessError(value.__qualname__)
        return "type", value.__module__, value.__qualname__
    if dataclasses.is_dataclass(value):
        fields = [(field.name, name_of(getattr(value, field.name))) for field in dataclasses.fields(value)]
        return name_of(type(value)), *fields
    raise _NamelessError(repr(value))


def _name_of_function(value: types.FunctionType) -> Name:
    """Name of a function of this package: its place in a source file, its code, and the values that it closes over.

    The code distinguishes functions that begin on the same line, such as lambdas.
    """
    if not of_this_package(value.__module__):
        raise _NamelessError(value.__qualname__)
    code = value.__code__
    place = value.__module__, value.__qualname__, str(code.co_firstlineno), _name_of_code(code)
    held = [cell.cell_contents for cell in value.__closure__ or ()]
    return "function", place, name_of(held), name_of(value.__defaults__), name_of(value.__kwdefaults__)


def _name_of_code(code: types.CodeType) -> Name:
    def constant(value: object) -> Name:
        if isinstance(value, types.CodeType):
            return _name_of_code(value)
        return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)  # sets have no fixed order

    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code.hex(), tuple(map(constant, code.co_consts)), *names


class _Kept(NamedTuple):
    """Content of a file.

    Attributes:
        program: maps the leaves of the arguments to the leaves of the result.
        tree: structure of the result.
    """

    program: jax.export.Exported
    tree: Structure


@dataclasses.dataclass(frozen=True)
class _Program:
    """A kept program for arguments of given shapes.

    Attributes:
        call: the jitted program, from the leaves of the arguments to the leaves of the result.
        shapes: shapes of the leaves of the result.
        tree: structure of the result.
    """

    call: Wrapped
    shapes: tuple[jax.ShapeDtypeStruct, ...]
    tree: Structure


class _KeptJit(Generic[Result]):
    """A jitted function whose programs are kept; it is called as the result of `jax.jit` and has its attributes."""

    def __init__(self, function: Callable[..., Result], static: Sequence[str], options: Options | None) -> None:
        self._function, self._asked = function, options
        self._place = function.__module__, getattr(function, "__qualname__", "")
        self._called = getattr(getattr(function, "func", function), "__name__", "call")  # for a partial, its function
        self._static = frozenset([static] if isinstance(static, str) else static)
        self._known: dict[Hashable, _Program | None] = {}
        functools.update_wrapper(self, function)

    @functools.cached_property
    def compiler_options(self) -> Options | None:
        """Options of the platform and those given, without options that the installed XLA lacks."""
        # Found at first use, because asking for options starts the backend, which an import must not do.
        asked = {**platform_options(), **(self._asked or {})}
        return {name: value for name, value in asked.items() if _has_option(name, value)} or None

    @functools.cached_property
    def _jitted(self) -> Any:
        return jax.jit(self._function, static_argnames=tuple(self._static), compiler_options=self.compiler_options)

    @functools.cached_property
    def _inner(self) -> Wrapped:
        """The function for use inside another program, where JAX refuses options."""
        return jax.jit(self._function, static_argnames=tuple(self._static))

    def __getattr__(self, name: str) -> Any:
        # Looking at a function, as `inspect` does, must not start the backend.
        if name.startswith("__") or "_asked" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._jitted, name)

    def _cache_size(self) -> int:
        """Number of programs known to this process, as `jax.jit` counts them."""
        return self._jitted._cache_size() + sum(program is not None for program in self._known.values())

    def __call__(self, *arguments: object, **static: object) -> Result:
        if self._inside_another(arguments):
            return self._inner(*arguments, **static)
        leaves, program = self._kept(arguments, static)
        if program is None:
            return self._jitted(*arguments, **static)
        return jax.tree.unflatten(program.tree, _uncommitted(program.call(*leaves)))

    def _inside_another(self, arguments: tuple[object, ...]) -> bool:
        """Whether another program is being traced or differentiated; false if this one has no options."""
        return self.compiler_options is not None and (is_traced(arguments) or tracing())

    def eval_shape(self, *arguments: object, **static: object) -> Result:
        """Shapes and dtypes of the result for these arguments, or for their shapes (`jax.eval_shape`)."""
        _, program = self._kept(arguments, static)
        if program is None:
            return self._jitted.eval_shape(*arguments, **static)
        return jax.tree.unflatten(program.tree, program.shapes)

    def compiled(self, *arguments: object, **static: object) -> Callable[..., Result]:
        """The function compiled for these arguments, or for their shapes; it takes them without the static ones.

        Like an ahead-of-time compiled `jax.jit`, it does not wait for its result, and takes arrays of JAX and of NumPy.
        """
        leaves, program = self._kept(arguments, static)
        if program is None:
            return self._jitted.lower(*arguments, **static).compile()
        executable = program.call.lower(*leaves).compile()
        return lambda *arguments: jax.tree.unflatten(program.tree, executable(*jax.tree.leaves(arguments)))

    def _kept(self, arguments: tuple[object, ...], static: Static) -> tuple[list[Leaf], _Program | None]:
        """The leaves of the arguments, and the kept program for them; None if `jax.jit` must be used."""
        leaves, tree = jax.tree.flatten(arguments)
        plain = all(map(_plain, leaves)) and self._static.issuperset(static)
        if _folder is None or _trace_context is None or not plain or not _single():
            return leaves, None
        shapes = tuple((np.shape(leaf), _dtype(leaf)) for leaf in leaves)
        given = tuple(sorted(static.items(), key=lambda item: item[0]))
        key = tree, shapes, given, context_of_trace(), with_kernels(), _folder
        if key not in self._known:
            self._known[key] = self._program(leaves, tree, shapes, static)
        return leaves, self._known[key]

    def _program(self, leaves: Sequence[Leaf], tree: Structure, shapes: Shapes, static: Static) -> _Program | None:
        """The program for these shapes, from its file or traced anew; None if it cannot be kept."""
        assert _folder is not None
        try:
            given = sorted((name, name_of(value)) for name, value in static.items())
            itself = name_of(self._function) if isinstance(self._function, functools.partial) else self._place
        except (_NamelessError, RecursionError, ValueError):  # also a function that holds itself, or an empty cell
            return None
        if not _in_no_context() or not code_unchanged():
            return None
        known = code_hash(), compile_settings(), with_kernels(), itself, self.compiler_options, str(tree), shapes, given
        file = _folder / hashlib.sha256(repr(known).encode()).hexdigest()
        kept = _read(file)
        if kept is None:
            kept = self._traced(leaves, tree, static)
            if kept is None:
                return None
            if code_unchanged():
                _write(file, kept)
        called = functools.partial(kept.program.call)
        called.__name__ = self._called  # pyright: ignore[reportAttributeAccessIssue] -- JAX logs and caches by name
        call = jax.jit(called, compiler_options=self.compiler_options)
        shapes_out = tuple(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in kept.program.out_avals)
        return _Program(call, shapes_out, kept.tree)

    def _traced(self, leaves: Sequence[Leaf], tree: Structure, static: Static) -> _Kept | None:
        out: list[Structure] = []

        def flat(*given: jax.Array) -> list[jax.Array]:
            found, structure = jax.tree.flatten(self._function(*jax.tree.unflatten(tree, given), **static))
            out.append(structure)
            return found

        flat.__name__ = self._called
        # JAX warns that later versions may read kernels differently, but files are for one version only.
        kernels = jax.export.DisabledSafetyCheck.custom_call("__gpu$xla.gpu.triton")
        platform = jax.export.default_export_platform()
        try:
            program = jax.export.export(jax.jit(flat), platforms=(platform,), disabled_checks=(kernels,))(*leaves)
        except (NotImplementedError, ValueError):
            # Some part has no portable form, or the function refuses its arguments, which `jax.jit` then reports.
            return None
        return _Kept(program, out[0])


def _uncommitted(leaves: Sequence[jax.Array]) -> list[jax.Array]:
    """Arrays that are not committed to a device, as `jax.jit` returns them; it waits for them on a CPU.

    JAX commits the results of an exported program to its device. Another program that is given both committed and
    uncommitted arrays would be compiled for each kind. On an accelerator, where this costs a copy to the host and back,
    and while another program is traced, arrays stay as they are.
    """
    if accelerated() or is_traced(leaves):
        return list(leaves)
    keys = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    bare = [jax.random.key_data(leaf) if key else leaf for leaf, key in zip(leaves, keys, strict=True)]
    found = jax.device_put(list(map(np.asarray, bare)))
    return [
        jax.random.wrap_key_data(again, impl=jax.random.key_impl(leaf)) if key else again
        for again, leaf, key in zip(found, leaves, keys, strict=True)
    ]


def _single() -> bool:
    """Whether programs run on the first device of a single process, in its usual form: only these are kept."""
    return as_usual() and _config.jax_default_device is None and jax.process_count() == 1


def _read(file: pathlib.Path) -> _Kept | None:
    try:
        content = file.read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            return None
        program, out_tree = pickle.loads(content[32:])
        _touch(file)
        return _Kept(jax.export.deserialize(bytearray(program)), out_tree)
    except Exception:  # missing, damaged, or of another version, which may raise anything
        return None


def _touch(file: pathlib.Path) -> None:
    """Sets the date of a file to now, as the time of its last use."""
    with contextlib.suppress(OSError):  # the folder may be read-only
        os.utime(file)


def _write(file: pathlib.Path, kept: _Kept) -> None:
    try:
        content = pickle.dumps((bytes(kept.program.serialize()), kept.tree))
        file.parent.mkdir(parents=True, exist_ok=True)
        part = part_of(file)
        part.write_bytes(hashlib.sha256(content).digest() + content)
        part.replace(file)
        tidy(file.parent)
    except (OSError, ImportError, ValueError, pickle.PicklingError, TypeError):
        pass  # without a file the next process only takes longer


def tidy(folder: pathlib.Path) -> None:
    """Deletes files unused for `_UNUSED` seconds, the least recently used beyond `MOST_BYTES`, and abandoned parts."""
    now, room = time.time(), MOST_BYTES
    found: list[tuple[float, int, pathlib.Path]] = []
    for path in folder.iterdir():
        if path.is_file() and re.fullmatch("[0-9a-f]{64}", target_of(path) or path.name):
            stat = path.stat()
            found.append((stat.st_mtime, stat.st_size, path))
    for used, size, path in sorted(found, reverse=True):
        if target_of(path) is not None:
            room_for = not is_abandoned(used)
        else:
            room -= size
            room_for = room >= 0 and now - used < _UNUSED
        if not room_for:
            path.unlink(missing_ok=True)


@overload
def kept_jit(
    function: Callable[..., Result], *, static_argnames: Sequence[str] = (), compiler_options: Options | None = None
) -> _KeptJit[Result]: ...


@overload
def kept_jit(
    function: None = None, *, static_argnames: Sequence[str] = (), compiler_options: Options | None = None
) -> Callable[[Callable[..., Result]], _KeptJit[Result]]: ...


def kept_jit(
    function: Callable[..., Result] | None = None,
    *,
    static_argnames: Sequence[str] = (),
    compiler_options: Options | None = None,
) -> _KeptJit[Result] | Callable[[Callable[..., Result]], _KeptJit[Result]]:
    """`jax.jit` for programs that the host calls in short processes: traced once and kept, see the module.

    Nothing is kept before `programs.use_cache`, with several processes, or inside another program. Then it is `jax.jit`
    with these options and those of the platform (`platforms.compiler_options`); inside another program without any.

    Args:
        function: takes pytrees of arrays by position, and static arguments by name.
        static_argnames: arguments that are static, see `jax.jit`.
        compiler_options: options of XLA.
    """
    if function is None:
        return lambda function: _KeptJit(function, static_argnames, compiler_options)
    return _KeptJit(function, static_argnames, compiler_options)
