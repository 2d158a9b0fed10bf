"""How much of the true Pareto set the mapper finds at its default budget, on spaces small enough to enumerate.

    python experiments/mapper_optimality.py [--seeds 10] [--out experiments/results/mapper_optimality.md]

For each (layer, template) pair every mapping is evaluated, which gives the true Pareto set over latency, energy and
area; then the mapper searches the same space with its default budget from several seeds. Mappings cover the layers'
own bounds: with padded ones most of these spaces are too large to be enumerated. The table gives the
hypervolume of the mapper's front as a share of the true front's, on logarithms of the objectives, with a reference
point at 1.1 times the largest value of each objective in the true front. `all` is the front that the search remembers,
`handed on` the part that its table passes to the scheduler, thinned where the front is larger; `thinned` is the true
front thinned in the same way.
"""

import argparse
import dataclasses
import pathlib

import jax
import numpy as np
from report import header

from mohamjax import emo
from mohamjax.hardware import load_technology, load_templates
from mohamjax.mapper.config import MapperConfig
from mohamjax.mapper.exhaustive import Enumeration, SpaceSize
from mohamjax.mapper.layer_mapper import LayerMapper
from mohamjax.workload import UniqueLayer, WorkloadShape

TECHNOLOGY = load_technology()
TEMPLATES = {template.name: template for template in load_templates(["eyeriss", "simba", "shidiannao"])}


def layer(kind: str, stride: tuple[int, int] = (1, 1), **bounds: int) -> UniqueLayer:
    return UniqueLayer(kind, WorkloadShape(**bounds, stride=stride))


PAIRS = [
    ("ResNet50 1x1, 512 to 2048", "eyeriss", layer("conv", K=2048, C=512, P=7, Q=7)),
    ("ResNet50 classifier", "eyeriss", layer("fc", K=1000, C=2048)),
    ("MobileNetV3 stem", "eyeriss", layer("conv", (2, 2), K=16, C=3, P=112, Q=112, R=3, S=3)),
    ("BERT output, 384 x 1024 x 2", "eyeriss", layer("fc", N=384, K=2, C=1024)),
    ("DLRM interaction", "eyeriss", layer("bmm", N=27, K=27, C=128)),
    ("conv 3x3, 8 to 8", "eyeriss", layer("conv", K=8, C=8, P=8, Q=8, R=3, S=3)),
    ("SSD-MobileNet depthwise 75 x 75", "simba", layer("dwconv", G=128, P=75, Q=75, R=3, S=3)),
    ("MobileNetV3 depthwise 5x5, 28 x 28", "simba", layer("dwconv", G=120, P=28, Q=28, R=5, S=5)),
    ("DLRM interaction", "simba", layer("bmm", N=27, K=27, C=128)),
    ("DLRM 256 to 128", "simba", layer("fc", K=128, C=256)),
    ("SSD-MobileNet 1x1, 512 to 273", "simba", layer("conv", K=273, C=512, P=19, Q=19)),
    ("conv 3x3, 8 to 8", "simba", layer("conv", K=8, C=8, P=8, Q=8, R=3, S=3)),
    ("ResNet50 classifier", "shidiannao", layer("fc", K=1000, C=2048)),
    ("YOLOv3 1x1, 1024 to 255", "shidiannao", layer("conv", K=255, C=1024, P=13, Q=13)),
    ("DLRM interaction", "shidiannao", layer("bmm", N=27, K=27, C=128)),
    ("conv 3x3, 8 to 4, 7 x 7", "shidiannao", layer("conv", K=8, C=4, P=7, Q=7, R=3, S=3)),
]  # fmt: skip

Front = np.ndarray


def finite(objectives: np.ndarray) -> Front:
    """The finite rows, as base-2 logarithms."""
    return np.log2(objectives[np.isfinite(objectives).all(axis=1)])


def hypervolume(front: Front, true: Front) -> float:
    """Share of the box between the true front's ideal point and 1.1 times its largest values."""
    ideal, reference = true.min(axis=0), true.max(axis=0) + np.log2(1.1)
    return float(emo.hypervolume(((front - ideal) / (reference - ideal)).astype(np.float32), np.ones(3, np.float32)))


def thinned(front: Front, entries: int) -> Front:
    """At most so many rows, thinned as the mapper thins its sets."""
    archive = emo.archive_init(entries, np.int32(0), 3)
    archive = emo.archive_update(archive, np.zeros(len(front), np.int32), front.astype(np.float32))
    return np.asarray(archive.objectives)[np.asarray(archive.valid)]


def true_fronts(pairs=PAIRS) -> list[tuple[SpaceSize, Front]]:
    """Size of each space and its true front."""
    out = []
    for _, template, unique in pairs:
        sizes: list[SpaceSize] = []
        tables = Enumeration(
            [unique], [TEMPLATES[template]], TECHNOLOGY, padding=False,
            announce=lambda *a, keep=sizes: keep.append(a[2]),
        ).tables()  # fmt: skip
        out.append((sizes[0], finite(tables.objectives[0, 0])))
    return out


def searched(seed: int, config: MapperConfig, pairs=PAIRS, **options) -> list[Front]:
    """Fronts of one seed, all pairs side by side."""
    layers, names = list(dict.fromkeys(p[2] for p in pairs)), list(TEMPLATES)
    tables = LayerMapper(layers, list(TEMPLATES.values()), TECHNOLOGY, config, **options).search(jax.random.key(seed))
    return [finite(tables.objectives[layers.index(unique), names.index(t)]) for _, t, unique in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    default = MapperConfig(padding=False)
    config = dataclasses.replace(default, entries=default.archive)
    true = true_fronts()
    runs = [searched(seed, config) for seed in range(options.seeds)]
    lines = [
        f"{header()}: {options.seeds} seeds, {config}.",
        "",
        (__doc__ or "").split("\n\n")[-1].strip(),
        "",
        f"At most {default.entries} mappings are handed on.",
        "",
        "| layer | template | mappings | of different cost | true front | all, median | worst | handed on, median | "
        "thinned |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    medians, worsts = [], []
    for i, (name, template, _) in enumerate(PAIRS):
        size, front = true[i]
        whole = hypervolume(front, front)
        shares = [hypervolume(run[i], front) / whole for run in runs]
        passed = [hypervolume(thinned(run[i], default.entries), front) / whole for run in runs]
        best = hypervolume(thinned(front, default.entries), front) / whole
        medians.append(float(np.median(shares)))
        worsts.append(min(shares))
        lines.append(
            f"| {name} | {template} | {size.mappings:,} | {size.classes:,} | {len(front)} | {medians[-1]:.2%} | "
            f"{worsts[-1]:.2%} | {np.median(passed):.2%} | {best:.2%} |"
        )
    lines += ["", f"Smallest median {min(medians):.2%}, worst of all seeds and pairs {min(worsts):.2%}."]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)


if __name__ == "__main__":
    main()
