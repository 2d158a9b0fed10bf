"""Stops searches at random moments, resumes them, and compares their files with an undisturbed search's.

    python experiments/kill_and_resume.py --kills 10 --out experiments/results/kill_and_resume.md
    python experiments/kill_and_resume.py --kills 10 --ways "kill,ctrl-c,ctrl-c twice,full disk" \
        --out experiments/results/interruptions.md
    python experiments/kill_and_resume.py --verb codesign --rounds phases NETWORK --space unico-ci --budget ci

Ways: `kill` is kill -9; `ctrl-c` is an interrupt; `ctrl-c twice` sends a second one within half a second; `full disk`
lets no file grow beyond a number of bytes, drawn up to those of the largest file. Two rounds have equally many stops.
In the first, searches start without mapping tables and the moments are drawn from the whole command, so that most fall
into the layer mapper. In the second, the tables are there and the moments are drawn from the time between the first and
the last generation. A third round, `phases`, kills up to five seconds after a phase drawn among those that the search
reports, however fast the machine is; its rows give this delay instead of the moment. Compiled programs are shared. What
a stopped search leaves must be whole, and what it says must be true: no traceback, no "nothing to write" beside a
checkpoint, no "--resume" without a checkpoint, no "results in" without results, and designs and front of the same
search. After the resumption files must be equal but for seconds: front, designs, settings and figures byte for byte
(except the figure whose title states the seconds), the history without its column of seconds, the checkpoint array by
array. Prints a row per stop, with the generation of the checkpoint that it left; the exit code is 1 if anything is
wrong.
"""

import argparse
import pathlib
import random
import signal
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from interruptions import SEARCH, VERBS, Command, differences, kill_and_resume, stop_and_resume
from report import Report, header

WHOLE, GENERATIONS, PHASES = "whole command", "generations", "phases"
LONGEST = 5.0  # seconds after a phase
DEFAULT = ["ar-vr", "--budget", "tiny", "--generations", "600"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="*", default=DEFAULT, help="arguments of the verb")
    parser.add_argument("--verb", default="search", choices=sorted(VERBS))
    parser.add_argument("--rounds", default=f"{WHOLE},{GENERATIONS}", help="by commas")
    parser.add_argument("--kills", type=int, default=10, help="of each way in each round")
    parser.add_argument("--ways", default="kill", help="of stopping, by commas")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    options, more = parser.parse_known_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background may have ignored it
    moments, verb = random.Random(options.seed), VERBS[options.verb]
    worst, report = [], Report()
    report.say("# Searches that are stopped and resumed", "", header(), "")
    report.say(
        "Moments are seconds since the start or, in the round `phases`, since the phase began; for a full disk, the",
        "largest size of a file in bytes. Where the last column is empty, the files are equal.",
        "",
    )
    report.head("drawn from", "way", "stop", "moment", "phase", "generation of the checkpoint", "wrong")
    with tempfile.TemporaryDirectory() as work:
        base = pathlib.Path(work)
        plain = Command((*options.run, *more), base / "cache", verb)
        unmapped = Command((*plain.arguments, "--no-mapping-cache"), plain.cache, verb) if verb is SEARCH else plain
        plain.undisturbed(base / "compiling")
        for name in options.rounds.split(","):
            command = {WHOLE: unmapped, GENERATIONS: plain, PHASES: plain}[name]
            whole = base / name
            first, last, end = command.undisturbed(whole)
            found = differences(base / "compiling", whole)
            report.row(name, "undisturbed", "", "", "", "", "; ".join(found))
            report.write(options.out)
            worst += found
            for way in ["kill"] if name == PHASES else options.ways.split(","):
                for k in range(options.kills):
                    between = (first, last) if name == GENERATIONS else (0.0, end)
                    out = base / f"{name} {way} {k}"
                    if name == PHASES:
                        stop = kill_and_resume(command, out, moments, LONGEST, whole)
                    else:
                        stop = stop_and_resume(command, out, way, moments, between, whole)
                    worst += stop.wrong
                    wrong = "; ".join(stop.wrong)
                    report.row(name, way, k, f"{stop.moment:.2f}", stop.phase, stop.left, wrong)
                    report.write(options.out)
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
