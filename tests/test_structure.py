"""The package's structure: imports between its parts go one way, no import is circular, no file is too long.

Checked in the source; imports inside functions and those for type checkers count too.
"""

import ast
import functools
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1] / "mohamjax"
MOST_LINES = 700

BASE = {"dims", "errors", "folders", "forms", "reader", "runtime", "text", "version"}
"""Modules that every part may import."""

MODEL = {"mapping", "hardware", "workload", "emo"}
BELOW_SEARCH = {"mapper", "problem", "schedule", *MODEL}
BESIDE = ("jobs", "robust", "unico", "whatif")

ARROWS = {
    "runtime": set(),
    "emo": set(),
    "workload": set(),
    "hardware": set(),
    "mapping": {"hardware", "workload"},
    "schedule": MODEL,
    "problem": {"schedule", *MODEL},
    "mapper": {"problem", "schedule", *MODEL},
    "search": BELOW_SEARCH,
    **{room: {"search", *BELOW_SEARCH} for room in BESIDE},
    "plot": {"schedule", "robust", "whatif", *MODEL},
    "page": {"schedule", *MODEL},
    "io": {"search", *BESIDE, *BELOW_SEARCH},
}
"""What each part may import besides itself and `BASE`. Other modules (api, figures, command line) may import any."""


def name_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}
MODULES = sorted(FILES)


def room_of(module):
    """The folder or file right below the package."""
    return module.split(".")[1] if "." in module else ""


@functools.cache
def imports(module):
    """Modules of the package that a module imports, with the line of the first import."""
    package = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
    found = {}
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package.split(".")[: len(package.split(".")) - node.level + 1], *base.split(".")])
            # An imported name may be a module of the package.
            names = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in FILES else base for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "mohamjax":
                found.setdefault(name, node.lineno)
    return found


def test_every_room_is_known():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"cli"}
    assert folders == set(ARROWS)
    assert {f"mohamjax.{name}" for name in BASE} <= set(MODULES)


@pytest.mark.parametrize("room", [*ARROWS, "the base"])
def test_arrows_run_downward(room):
    """As `ARROWS` says: for example `search` and `plot` know no files, and `emo` knows nothing of the project."""
    members = [m for m in MODULES if room_of(m) == room or (room == "the base" and room_of(m) in BASE)]
    allowed = BASE | ARROWS.get(room, set()) | {room}
    assert members
    wrong = [
        f"{module}:{line} imports {name}"
        for module in members
        for name, line in imports(module).items()
        if room_of(name) not in allowed
    ]
    assert not wrong, wrong


def test_no_module_imports_itself_on_some_way():
    """Depth-first search: a module that is met again while it is still open closes a cycle."""
    state, circles = {}, []

    def visit(module, way):
        state[module] = "open"
        for name in imports(module):
            if name not in FILES:
                continue
            if state.get(name) == "open":
                circles.append(" -> ".join([*way[way.index(name) :], name]))
            elif name not in state:
                visit(name, [*way, name])
        state[module] = "done"

    for module in MODULES:
        if module != "mohamjax" and module not in state:  # the package is lazy: it imports a module when it is used
            visit(module, [module])
    assert not circles, circles


def test_no_file_is_too_long():
    long = {name: lines for name, path in FILES.items() if (lines := len(path.read_text().splitlines())) > MOST_LINES}
    assert not long, long


def test_mapping_is_a_loop_nest():
    """`collections.abc.Mapping` is written `abc.Mapping`: the bare name means the loop nest."""
    bare = [
        name
        for name, path in FILES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module in ("collections.abc", "typing")
        if any((alias.asname or alias.name) == "Mapping" for alias in node.names)
    ]
    assert not bare, bare


ON_THE_HOST = {
    "mohamjax.mapping.wires",
    "mohamjax.problem.goals",
    "mohamjax.schedule.bounds",
    "mohamjax.schedule.measures",
    "mohamjax.unico.space",
}
"""Modules that import `jax.numpy` but multiply NumPy matrices."""


def test_products_of_matrices_are_in_full_precision():
    """Traced ones use `platforms.product` or state their precision: GPUs otherwise keep ten bits of each factor."""
    products = {"dot", "dot_general", "einsum", "inner", "matmul", "matvec", "tensordot", "vdot", "vecdot", "vecmat"}
    bare = []
    for name, path in FILES.items():
        nodes = list(ast.walk(ast.parse(path.read_text())))
        traced = any(
            isinstance(node, ast.Import) and any(alias.name == "jax.numpy" for alias in node.names) for node in nodes
        )
        for node in nodes:
            if (
                isinstance(node, ast.BinOp | ast.AugAssign)
                and isinstance(node.op, ast.MatMult)
                and traced
                and name not in ON_THE_HOST
            ):
                bare.append(f"{name}:{node.lineno} @")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in products:
                of_jax = isinstance(node.func.value, ast.Name) and node.func.value.id in ("jnp", "lax")
                if of_jax and not any(keyword.arg == "precision" for keyword in node.keywords):
                    bare.append(f"{name}:{node.lineno} {node.func.attr}")
    assert not bare, bare
