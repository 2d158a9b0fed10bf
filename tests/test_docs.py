"""The documentation: snippets marked as runnable run, page by page, and the pages build without a warning."""

import ast
import html
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

from mohamjax.search import BUDGETS

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
SNIPPET = re.compile(r"^<!-- run -->\n+```python\n(.*?)^```$", re.S | re.M)
RUNNABLE = {str(page.relative_to(ROOT)): SNIPPET.findall(page.read_text(encoding="utf-8")) for page in PAGES}


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, snippets in RUNNABLE.items() if snippets])
def test_snippets_run(page, tmp_path, monkeypatch):
    """The snippets of a page run one after the other in one namespace."""
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "__main__"}
    for number, snippet in enumerate(RUNNABLE[page]):
        exec(compile(snippet, f"{page}, snippet {number}", "exec"), space)


def test_every_mark_is_of_a_snippet():
    """A mark before no snippet would silently leave one out."""
    for page in PAGES:
        marks = page.read_text(encoding="utf-8").count("<!-- run -->")
        assert marks == len(RUNNABLE[str(page.relative_to(ROOT))]), page
    assert len(RUNNABLE["docs/start.md"]) >= 10


def test_readme_has_its_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("pip install . && mohamjax search ar-vr", 'pip install ".[test]" && pytest'):
        assert f"```sh\n{command}\n```" in text


def test_docstrings_point_to_pages_that_exist():
    """The pages and headings of the documentation that the package names exist."""
    found = 0
    for source in (ROOT / "mohamjax").rglob("*.py"):
        for page, anchor in re.findall(r"(docs/[\w/-]+\.md)(?:#([\w-]+))?", source.read_text(encoding="utf-8")):
            assert (ROOT / page).is_file(), f"{source.name} names {page}"
            headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.M)
            slugs = {re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings}
            assert not anchor or anchor in slugs, f"{source.name} names {page}#{anchor}"
            found += 1
    assert found > 10


def test_examples_are_headed_as_the_pages_read_them():
    """Under another heading the pages render an example as text: nested quotes, and links for lists."""
    sources = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "mohamjax").rglob("*.py")]
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef
    texts = [ast.get_docstring(node) for source in sources for node in ast.walk(source) if isinstance(node, kinds)]
    found = [text for text in texts if text and ">>> " in text]
    assert len(found) > 40 and all(re.search(r"^Examples:$", text, re.M) for text in found)


def test_notebooks_draw_once_with_each_key():
    """Two draws with one key depend on each other: steps and which of them are taken, for example."""
    cells = [
        "".join(cell["source"])
        for notebook in sorted((ROOT / "notebooks").glob("*.ipynb"))
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code" and not cell["source"][0].startswith("%%")
    ]
    draws = 0
    for function in (node for cell in cells for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.FunctionDef)):
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and node.args]
        keys = [ast.unparse(call.args[0]) for call in calls if ast.unparse(call.func).startswith("jax.random.")]
        assert len(keys) == len(set(keys)), function.name
        draws += len(keys)
    assert draws > 3


def test_what_builds_the_pages_brings_a_formatter_of_signatures():
    """Without one every signature is a single line."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(one.startswith("ruff") for one in extras["docs"])


@pytest.mark.slow
def test_pages_build_without_a_warning(tmp_path):
    missing = [name for name in ("mkdocs", "material", "mkdocstrings") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed (pip install '.[docs]')")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "api" / "python" / "index.html").read_text(encoding="utf-8")
    found = re.findall(r'<div class="doc-signature highlight">.*?</div>', page, re.S)
    lines = [html.unescape(re.sub("<[^>]+>", "", signature)).splitlines() for signature in found]
    search = next(one for one in lines if one[0].startswith("search("))
    assert len(search) > 10 and max(map(len, search)) < 80, "a signature is one endless line"
    assert "<blockquote>" not in page, "an example is not shown as code"


def test_the_table_of_settings_has_the_values_of_the_budgets():
    text = (ROOT / "docs" / "api" / "search.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+ / [\d.]+ / [\d.]+) \|", text, re.MULTILINE)
    assert {"population", "generations", "every"} <= {name for name, _ in rows}
    for name, told in rows:
        budgets = [BUDGETS[budget] for budget in ("tiny", "small", "paper")]
        parts = [part for part in ("moham", "remap") if hasattr(getattr(budgets[0], part), name)]
        values = [getattr(getattr(budget, parts[0]), name) for budget in budgets]
        assert told == " / ".join(f"{value:g}" for value in values), name
