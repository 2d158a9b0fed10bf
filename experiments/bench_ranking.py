"""Times the forms of `mohamjax.emo.non_dominated_rank`, to choose the sizes at which 'auto' changes form.

    python experiments/bench_ranking.py [--sizes 256 512 ...] [--out experiments/results/ranking.md]

The populations have N rows and three objectives: `uniform` is uniform in the unit cube (many fronts); `front` has half
of its rows on a sphere octant and half up to 5 % behind (few fronts, as parents and offspring late in a search); in
`chain` every row is dominated by the one before it (N fronts, the worst case). Times are the best of several runs,
without the compilation.
"""

import argparse
import pathlib
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from report import Report, header

from mohamjax import emo

SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384, 65536)
POPULATIONS = ("uniform", "front", "chain")
PEEL_BYTES = 600_000_000  # leave out peeling where its bit matrix, N^2 / 8 bytes, is larger
PEEL_WORK = 1e11  # and where all its rounds together would read more bytes than this


def population(kind: str, n: int) -> jax.Array:
    rng = np.random.default_rng(n)
    if kind == "uniform":
        rows = rng.random((n, 3))
    elif kind == "front":
        rows = np.abs(rng.normal(size=(n, 3)))
        rows = 1 - rows / np.linalg.norm(rows, axis=1, keepdims=True)
        rows[n // 2 :] += 0.05 * rng.random((n - n // 2, 3))
    else:
        rows = rng.permutation(np.repeat(np.arange(n)[:, None], 3, axis=1))
    return jnp.asarray(rows, jnp.float32)


def milliseconds(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Milliseconds of the first call, and of the best of `repeats` later calls."""
    seconds = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - begin)
    return 1e3 * seconds[0], 1e3 * min(seconds[1:])


def measure(kind: str, n: int, repeats: int) -> dict[str, object]:
    rows = population(kind, n)
    rank = emo.non_dominated_rank(rows, method="blocked")
    fronts = int(rank.max()) + 1
    record: dict[str, object] = {"population": kind, "rows": n, "fronts": fronts}
    matrix = n * n / 8
    for method in ("peel", "blocked", "wide"):
        if method == "peel" and (matrix > PEEL_BYTES or matrix * fronts > PEEL_WORK):
            continue
        jax.clear_caches()
        first, best = milliseconds(lambda m=method: emo.non_dominated_rank(rows, method=m), repeats)
        record[f"{method}_first_ms"], record[f"{method}_ms"] = round(first, 1), round(best, 3)
    record["crowding_ms"] = round(milliseconds(lambda: emo.crowding_distance(rows, rank), repeats)[1], 3)
    record["survive_ms"] = round(milliseconds(lambda: emo.survive(rows, n // 2), repeats)[1], 3)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--populations", nargs="+", choices=POPULATIONS, default=POPULATIONS)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    arguments = parser.parse_args()

    report = Report()
    report.say(f"{header()}.", "", (__doc__ or "").split("\n\n")[2].strip(), "")
    columns = ("population", "rows", "fronts", "peel_ms", "blocked_ms", "wide_ms", "crowding_ms", "survive_ms")
    report.head(*columns)
    for kind in arguments.populations:
        for n in arguments.sizes:
            record = measure(kind, n, arguments.repeats)
            report.row(*(str(record.get(name, "")) for name in columns))
    report.write(arguments.out)


if __name__ == "__main__":
    main()
