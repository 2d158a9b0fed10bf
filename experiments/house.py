"""Measures of the package's code: functions that take a problem apart, have many parameters or are long, and `Any`.

Only the source is read, of one checkout or of several, for instance of before and after a change:

    git worktree add ../before COMMIT
    python experiments/house.py ../before . --out experiments/results/house.md
"""

import argparse
import ast
import pathlib
import re
import subprocess

from report import Report, header

CARGO = {"application", "templates", "technology", "package", "tables", "wires", "site", "resolved"}
"""Names of the parts of a design problem: a function that takes three or more of them takes the problem apart.

`site` is the former name of `resolved`.
"""

MOST_CARGO, MOST_PARAMETERS, MOST_LINES = 3, 7, 100


def functions(root: pathlib.Path) -> list[tuple[str, set[str], int]]:
    """Every function below a folder: where it stands, its parameters without self and cls, and its lines."""
    found = []
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own = node.args
                names = {one.arg for one in (*own.posonlyargs, *own.args, *own.kwonlyargs)} - {"self", "cls"}
                place = f"{file.relative_to(root.parent)}:{node.lineno} {node.name}"
                found.append((place, names, (node.end_lineno or node.lineno) - node.lineno + 1))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("checkout", nargs="*", type=pathlib.Path, default=[pathlib.Path()])
    parser.add_argument("--list", action="store_true", help="name the functions that count, of the last checkout")
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    options = parser.parse_args()
    report = Report()
    report.say(f"{header()}.", "")
    report.head(
        "commit", "files", "lines", "functions", f"carry {MOST_CARGO} or more of 7",
        f"more than {MOST_PARAMETERS} parameters", f"more than {MOST_LINES} lines", "`Any`",
    )  # fmt: skip
    listed: dict[str, list[str]] = {}
    for checkout in options.checkout:
        root = checkout.resolve() / "mohamjax"
        texts = [file.read_text() for file in root.rglob("*.py")]
        every = functions(root)
        listed = {
            "carry much": [f"{place}: {', '.join(sorted(names & CARGO))}" for place, names, _ in every
                           if len(names & CARGO) >= MOST_CARGO],
            "have many parameters": [f"{place}: {len(names)}" for place, names, _ in every
                                     if len(names) > MOST_PARAMETERS],
            "are long": [f"{place}: {lines} lines" for place, _, lines in every if lines > MOST_LINES],
        }  # fmt: skip
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True
        ).stdout.strip()
        counts = len(texts), sum(text.count("\n") for text in texts), len(every), *map(len, listed.values())
        untyped = sum(len(re.findall(r"\bAny\b", text)) for text in texts)
        report.row(commit, *(f"{count:,}" for count in (*counts, untyped)))
    if options.list:
        for what, places in listed.items():
            print(f"\nFunctions that {what}:\n" + "\n".join(places))
    report.write(options.out)


if __name__ == "__main__":
    main()
