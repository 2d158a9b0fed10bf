"""Words for the command line: verbs, options, files, numbers and nonsense."""

import numpy as np

NAMED = {
    "designs": "designs.json",
    "jobtable": "table.json",
    "fluid": "cases.json",
    "template": "t.yaml",
    "costs": "costs.csv",
    "technology": "tech.yaml",
    "package": "package.yaml",
    "requirements": "wishes.yaml",
    "scenario": "mine.yaml",
    "jobs": "jobs.csv",
    "platform": "p.yaml",
    "timeloop": "loops.yaml",
    "architectures": "archs.json",
    "samples": "samples.jsonl",
    "costschedule": "order.csv",
    "arrays": "designs.npz",
    "lines": "many.jsonl",
}
"""Files that words may name, by their readers."""

LONG = ("search", "schedule", "codesign", "map", "bench", "warm", "convert")
"""Verbs that, in most of their forms, take minutes where all their words are valid."""

_FILES = [
    *NAMED.values(),
    "m.onnx",
    "results",
    ".",
    "..",
    "absent",
    "absent.npz",
    "absent.jsonl",
    "/dev/zero",
    "/dev/null",
    "",
    "\0",
    "-",
]
_WORDS = [
    "simba",
    "45nm",
    "edge",
    "ar-vr",
    "tiny",
    "small",
    "S1",
    "all",
    "0",
    "1",
    "-1",
    "2",
    "1.5",
    "1e3",
    "1e308",
    "1e-320",
    "inf",
    "nan",
    "9" * 40,
    "9" * 5000,
    "٣",
    "x",
    "é",
    "a b",
    ",",
    ",,",
    "=",
    "a=",
    "=a",
    "a=b=c",
    "x=1,3",
    "x=0",
    "x=2,-4",
    "x=2,4",
    "x=9999999999,2",
    "png",
    "png,svg",
    "gif",
    "designs/1",
    "layer=layer",
    "layer=x",
    "x=layer",
    "latency",
    "\n",
    "\ud800",
    "--",
    "-h",
    "%s",
    "{}",
    "*",
    "$HOME",
    "~",
    "a" * 5000,
]
_PARAMETERS = [
    "clock_GHz",
    "clock",
    "nop.hop_energy",
    "nop.interface_bandwidth",
    "nop.link_bandwidth",
    "dram.bandwidth",
    "technology.dram_energy",
    "technology.mac_energy",
    "technology.sram_energy",
    "simba.Global.capacity",
    "simba.fanout",
    "nop",
    "x",
    "",
]
_VALUES = [
    "1",
    "2",
    "x1",
    "x0.5",
    "x2",
    "0",
    "x0",
    "-1",
    "unlimited",
    "1e308",
    "x1e308",
    "x1e-308",
    "1e-320",
    "nan",
    "inf",
    "xinf",
    "x",
    "",
    "1_0",
    "1,1",
    ",".join(map(str, range(1, 400))),
]
_SEARCH = (
    "--budget",
    "--preset",
    "--templates",
    "--package",
    "--require",
    "--population",
    "--technology",
    "--inject",
    "--max-chiplets",
)
_ROADS = {
    ("templates", "show"): (),
    ("templates", "list"): (),
    ("templates", "show", "--yaml"): (),
    ("schema",): (),
    ("validate",): ("--as package", "--as designs/1"),
    ("technology", "list"): (),
    ("technology", "make"): ("--node", "--templates"),
    ("workload",): ("--batch", "--shape", "--skip-unknown", "--csv -", "--seed"),
    ("evaluate", "mappings"): ("--architectures", "--samples", "--timeloop", "--explain"),
    ("evaluate", "designs"): (
        "--vary",
        "--vary",
        "--uncertainty",
        "--samples 9",
        "--samples",
        "--explain",
        "--design",
        "--technology",
        "--sensitivities",
        "--periods 2 --periods-out -",
        "--resume",
        "--json",
    ),
    ("evaluate", "schedules"): ("--vary", "--uncertainty", "--timelines", "--technology", "--strict"),
    ("report",): ("--details", "--design", "--title", "--technology"),
    ("plot",): ("--format",),
    ("search",): (
        *_SEARCH,
        "--islands",
        "--checkpoint-every",
        "--rate",
        "--weights",
        "--archive",
    ),
    ("search", "--dry-run"): (
        *_SEARCH,
        "--generations",
        "--islands",
        "--shape",
    ),
    ("schedule",): (
        "--platform",
        "--bandwidth",
        "--method",
        "--objective",
        "--population",
        "--power-cap",
        "--transfer",
    ),
    ("codesign",): ("--template", "--space", "--budget", "--package", "--technology", "--power-cap"),
    ("map",): ("--template", "--budget", "--limit", "--inject", "--figure"),
    ("bench",): ("--populations", "--repeats"),
    ("warm",): ("--budget", "--preset"),
    ("convert", "layers"): ("--workload", "--column", "--chiplets", "--sample"),
    ("convert", "allocation"): ("--workload", "--chiplets", "--budget"),
    ("convert", "costs"): ("--bandwidth", "--column", "--schedule", "--time-unit"),
    (): (),
}
"""Verbs and options that a word may follow."""


def some_words(rng: np.random.Generator) -> list[str]:
    """Words for the command line: a verb, some files and words, some options with a word or two."""

    def drawn(words) -> str:
        return str(words[int(rng.integers(len(words)))])

    verb = list(_ROADS)[int(rng.integers(len(_ROADS)))]
    options = _ROADS[verb]
    named = range(int(rng.choice([0, 1, 1, 1, 2])))
    words = list(verb) + [drawn(_FILES if rng.random() < 0.7 else _WORDS) for _ in named]
    if verb[:1] == ("evaluate",) and rng.random() < 0.6:
        words = [*verb, "designs.json"]
    if verb == ("convert", "costs") and rng.random() < 0.6:
        words = [*verb, "costs.csv", "--bandwidth", "1"]
    for _ in range(int(rng.integers(4)) if options else 0):
        option, _, value = drawn(options).partition(" ")
        words.append(option)
        if value:
            words += value.split(" ")
        elif option in ("--vary", "--uncertainty"):
            words.append(f"{drawn(_PARAMETERS)}={','.join(drawn(_VALUES) for _ in range(int(rng.integers(1, 3))))}")
        elif option not in ("--json", "--resume", "--strict", "--timelines", "--sensitivities", "--skip-unknown"):
            words.append(drawn(_FILES + _WORDS))
    return words
