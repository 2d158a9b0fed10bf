"""What the command line shows during a run: bars on a terminal, plain lines elsewhere, tables that fit."""

import ast
import itertools
import os
import pathlib
import re
import sys
import time
from types import SimpleNamespace

import pytest

import mohamjax
from mohamjax.cli import main
from mohamjax.cli.options import as_options, with_option
from mohamjax.cli.tables import fitted, lines
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import Argument, InputError
from mohamjax.text import plural

ROWS = [["network", "layers", "what it is"], ["resnet50", "54", "word " * 30], ["another", "1,234", "short"]]


def generation(done):
    return SimpleNamespace(
        generation=done,
        compile_s=3.0,
        fresh_evaluations=1000 * done,
        seconds=float(done),
        step_s=2.0,
        rounds_s=0.0,
        hypervolume=(0.25,),
        front_size=(17,),
    )


def mapped(done):
    return SimpleNamespace(
        done=done, problems=4, cached=1, evaluations=100 * done, total=400, seconds=3.0 + done, compile_s=2.0
    )


@pytest.fixture
def screen(monkeypatch):
    """A pseudo-terminal: the stream to write to, and a function that returns all text that has arrived."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    other, own = os.openpty()
    os.set_blocking(other, False)
    seen = []

    def text():
        stream.flush()
        try:
            while part := os.read(other, 1 << 16):
                seen.append(part.decode())
        except BlockingIOError:
            pass
        return "".join(seen)

    with open(own, "w", encoding="utf-8") as stream:
        yield stream, text
    os.close(other)


def plain(text):
    """The text without terminal control sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_a_terminal_gets_bars_with_rates_and_time_left(screen, monkeypatch):
    stream, text = screen
    monkeypatch.setattr(sys, "stderr", stream)
    with Terminal() as terminal:
        terminal.announce("mapping 4 layers [bold]")
        terminal.mapping(mapped(1))
        terminal.mapping(mapped(4))
        terminal.progress(generation(1), 3)
        terminal.line("a word in between")
        terminal.progress(generation(2), 3)
    shown = plain(text())
    for words in (
        "mapping 4 layers [bold]",
        "compiled the mapper in 2.0 s",
        "1/4 sets (1 cached)  50 mappings/s",
        "6 s left",
        "compiled in 3.0 s",
        "generation 1/3  1,000 designs/s  front 17  hypervolume 0.2500",
        "4 s left",
        "a word in between",
        "generation 2/3",
    ):
        assert words in shown, words
    assert "━" in shown  # a bar
    assert text().count("\x1b[?25l") == text().count("\x1b[?25h")  # the cursor is shown again
    assert sys.stderr is stream


def test_elsewhere_there_are_plain_lines_one_in_two_seconds(capsys):
    with Terminal() as terminal:
        terminal.announce("mapping")
        for done in range(1, 5):
            terminal.mapping(mapped(done))
        terminal.progress(generation(3), 3)
    assert capsys.readouterr().err.splitlines() == [
        "mapping",
        "compiled the mapper in 2.0 s",
        "mapper  1/4 sets (1 cached)  50 mappings/s  6 s left",
        "mapper  4/4 sets (1 cached)  80 mappings/s  0 s left",
        "compiled in 3.0 s",
        "search  generation 3/3  1,000 designs/s  front 17  hypervolume 0.2500  0 s left",
    ]


def test_a_mapper_that_has_evaluated_nothing_tells_no_rate(capsys):
    nothing = {"evaluations": 0, "compile_s": 0.0}
    with Terminal() as terminal:
        terminal.mapping(SimpleNamespace(**vars(mapped(1)) | nothing))
        terminal.mapping(SimpleNamespace(**vars(mapped(4)) | nothing | {"cached": 4}))
    assert capsys.readouterr().err.splitlines() == [
        "mapper  1/4 sets (1 cached)  compiling",
        "mapper  4/4 sets (4 cached)",
    ]


def test_an_export_tells_how_far_it_is_where_it_takes_a_while(capsys, monkeypatch):
    clock = itertools.count(0.0, 4.0)
    monkeypatch.setattr("mohamjax.progress.time.monotonic", lambda: next(clock))
    with Terminal() as terminal:
        tell = terminal.exporting("mappings")
        for done in range(1, 5):
            tell(done, 4)
    told = capsys.readouterr().err.splitlines()
    assert told and all(re.fullmatch(r"writing  \d of 4 mappings  \d+ s left", line) for line in told)
    assert told[-1].startswith("writing  4 of 4")


@pytest.mark.slow
def test_a_step_is_announced_where_it_is_silent_for_three_seconds(capsys):
    with Terminal() as terminal:
        with terminal.waiting("over at once"):
            pass
        with terminal.waiting("told of otherwise"):
            terminal.mapping(mapped(1))
            time.sleep(3.3)
        with terminal.waiting("long"):
            time.sleep(3.3)
    assert capsys.readouterr().err.splitlines()[1:] == ["mapper  1/4 sets (1 cached)  50 mappings/s  6 s left", "long"]


def test_a_what_if_question_tells_how_far_it_is_where_that_takes_a_while(capsys, monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("mohamjax.progress.time", SimpleNamespace(monotonic=lambda: clock.now))
    for paces in ((0.1,) * 4, (10.0,) * 4, (10.0, 0.1, 0.1, 0.1)):
        with Terminal() as terminal:
            for done, pace in zip(range(1000, 5000, 1000), paces, strict=True):
                terminal.answering(done, 4000)
                clock.now += pace
    assert capsys.readouterr().err.splitlines() == [
        "what if  2,000 of 4,000 evaluations  100/s  20 s left",
        "what if  3,000 of 4,000 evaluations  100/s  10 s left",
        "what if  4,000 of 4,000 evaluations  100/s  0 s left",
        "what if  2,000 of 4,000 evaluations  100/s  20 s left",  # the end is reported even if it comes soon after
        "what if  4,000 of 4,000 evaluations  294/s  0 s left",
    ]


def test_a_standard_error_that_breaks_stops_nothing(monkeypatch):
    class Gone:
        def isatty(self):
            return False

        def write(self, text):
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    with Terminal() as terminal:
        terminal.line("nobody reads this")
        terminal.progress(generation(3), 3)


def test_a_table_fits_the_terminal(screen, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    text = plain(fitted(ROWS, screen[0]))
    assert max(map(len, text.splitlines())) <= 60
    assert text.count("word") == 30 and "1,234" in text
    print(fitted(ROWS))
    assert capsys.readouterr().out.splitlines()[0] == "network   layers  what it is"


SUMMARY = [
    ["design", "id", "latency [ms]", "/bound", "energy [mJ]", "/bound", "area [mm^2]", "/bound", "chiplets"],
    ["fastest", "0", "36.62", "1.001", "106.5", "1.213", "82.15", "28816", "5 simba, 2 shidiannao, 1 eyeriss-released"],
    ["lower bound", "", "36.6", "", "87.8", "", "0.002851", "", ""],
]


@pytest.mark.parametrize("columns", [30, 50, 80, 100, 200])
def test_a_narrow_terminal_loses_no_column_and_breaks_no_word(columns, screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = plain(fitted(SUMMARY, screen[0]))
    assert max(map(len, shown.splitlines())) <= columns
    assert {word for row in SUMMARY for cell in row for word in cell.split()} <= set(shown.split())
    tables = shown.split("\n\n")
    assert len(tables) == 1 if columns >= 90 else all(part.split()[0] == "design" for part in tables)


def test_a_word_that_is_wider_than_the_terminal_is_broken_and_a_sentence_is_not(screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    shown = plain(fitted([["a", "b"], ["x", "w" * 50]], screen[0]))
    assert max(map(len, shown.splitlines())) <= 20 and shown.count("w") == 50
    assert lines("no word of this sentence is broken", screen[0]).split("\n") == [
        "no word of this",
        "sentence is broken",
    ]
    assert lines("a line of a file is as long as it is", sys.stdin) == "a line of a file is as long as it is"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("argument `budget`: unknown budget 'foo'", "--budget: unknown budget 'foo'"),
        ("raise the argument `population`, or", "raise --population, or"),
        ("take the argument `cost_model=loop-nest`", "take --cost-model loop-nest"),
        ("give it with the argument `shapes[x.0]`", "give it with --shape x.0=d,d,..."),
        ("with the argument `shapes[a]b]=1,d`, or", "with --shape a]b=1,d, or"),
        ("the argument `requirements` and the argument `designs`", "--require and --inject"),
        ("the argument `unheard_of`; add `budget`", "the argument `unheard_of`; add `budget`"),
    ],
)
def test_arguments_are_shown_as_options(said, shown):
    assert as_options(said) == shown


def test_complaints_about_arguments_are_told_of_options():
    one = InputError("is 0", argument="repeats", remedy="use 1 or more, or raise the argument `limit`")
    assert (str(one), one.argument) == (f"argument `repeats`: {one.message}; {one.remedy}", Argument("repeats"))
    assert str(with_option(one)) == f"--repeats: is 0; {one.remedy}"
    keyed = InputError("has no values", argument=Argument("vary", key="clock"))
    assert (keyed.item, with_option(keyed).item) == ("argument `vary[clock]`", "--vary clock=V,V,...")
    assert with_option(InputError("x", argument=Argument("devices", value=3))).item == "--devices 3"
    for other in (InputError("x", argument="unheard_of"), InputError("x", item="layers[0]")):
        assert with_option(other) is other


def test_no_message_of_the_library_names_options():
    """Only the command line does: elsewhere no string has a word that begins with two dashes."""
    root = pathlib.Path(mohamjax.__file__).parent
    found = [
        f"{path.relative_to(root)}:{node.lineno}: {node.value}"
        for path in root.rglob("*.py")
        if "cli" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value
        if re.search(r"(?<![-\w])--[a-z]", node.value)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["schema", "foo"], "mohamjax: there is no schema 'foo'; known: "),
        (
            ["convert", "costs", "FILE", "--bandwidth", "9", "--column", "layer=which"],
            ": --column: there is no column 'which' in the file",
        ),
        (["convert", "costs", "FILE", "--bandwidth", "9"], "or name it with --column chiplet=NAME"),
        (["search", "ar-vr", "--technology", "FILE"], "packaged technologies: 45nm, "),
    ],
)
def test_messages_name_what_the_command_line_has(command, told, tmp_path, capsys):
    name = tmp_path / "file"
    name.write_text("base: nowhere\n" if "--technology" in command else "layer,cost\nstem,4\n")
    assert main([str(name) if word == "FILE" else word for word in command]) == 2
    assert told in capsys.readouterr().err


def test_nouns_have_their_plurals():
    assert [plural(2, noun) for noun in ("template", "entry", "way")] == ["2 templates", "2 entries", "2 ways"]
    assert plural(1, "entry") == "1 entry"


def test_the_command_line_shows_its_options(capsys):
    assert main(["search", "ar-vr", "--budget", "foo"]) == 2
    assert capsys.readouterr().err == "mohamjax: --budget: unknown budget 'foo'; use one of tiny, small, paper\n"
