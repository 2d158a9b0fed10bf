"""Ensembles: several application models that one package has to serve, each with a schedule of its own.

Format `robust/1` (YAML; `format`, `over`, `nominal` and `held_out` may be left out):

```yaml
format: robust/1
over: mean                   # objectives are the mean by weight over the models, or the worst
nominal: all                 # the model that a package would be designed for otherwise; default the first one
models:
  - name: all                # all networks of the scenario
    weight: 2
  - name: vision
    networks: [resnet50, "ssd_*"]      # some of them, by name or pattern
  - name: bursts
    networks: [resnet50]
    batch: 4                 # so many times the samples at once
  - name: phone
    scenario: mobile         # other networks: a packaged scenario, or a YAML or ONNX file relative to this one
held_out:                    # reported beside, never searched for
  - name: detection
    networks: [yolov3_416]
```

A search sees one joined application model, which holds the layers of all models, one model after the other. Each of its
designs is one package with a schedule for every model: the models never run at the same time.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from mohamjax.errors import InputError
from mohamjax.forms import Form, Name, Positive, Text, read_form
from mohamjax.reader import read_yaml
from mohamjax.runtime.struct import shown_briefly
from mohamjax.workload.layer import ApplicationModel, Network, with_batch
from mohamjax.workload.scenario import MAX_LAYERS, load_scenario, named_beside

MAX_MODELS = 64
"""Most searched models of an ensemble, and most held-out ones."""

MOST_WEIGHT = 1e6
"""Largest ratio of two weights. A smaller weight could become 0 in single precision, and the mean NaN where its model
does not run."""


class MemberModelForm(Form, kw_only=True):
    """An application model: networks of the scenario at hand, or another scenario."""

    name: Name
    scenario: Text | None = None
    networks: Annotated[list[Text], Meta(min_length=1, description="names or patterns of networks")] | None = None
    batch: Annotated[int, Meta(ge=1, le=2**20, description="times the samples that run at once")] | None = None
    weight: Positive | None = None


class HeldOutForm(Form, kw_only=True):
    """An application model that is reported alone, and has no weight."""

    name: Name
    scenario: Text | None = None
    networks: Annotated[list[Text], Meta(min_length=1, description="names or patterns of networks")] | None = None
    batch: Annotated[int, Meta(ge=1, le=2**20, description="times the samples that run at once")] | None = None


class RobustForm(Form, kw_only=True):
    """A `robust/1` file."""

    format: Literal["robust/1"] | None = None
    over: Literal["mean", "worst"] = "mean"
    nominal: Name | None = None
    models: Annotated[list[MemberModelForm], Meta(min_length=1, max_length=MAX_MODELS)]
    held_out: Annotated[list[HeldOutForm], Meta(max_length=MAX_MODELS)] | None = None


@dataclasses.dataclass(frozen=True)
class Member:
    """An application model of an ensemble.

    Attributes:
        application: the networks, under the name of the model.
        weight: its weight in the mean.
        batch: factor by which the samples of its networks were multiplied, for the record.
        scenario: name or file of the scenario that it was made from, for the record; empty for the given one.
    """

    application: ApplicationModel
    weight: float = 1.0
    batch: int = 1
    scenario: str = ""

    @property
    def name(self) -> str:
        """The model's name."""
        return self.application.name


@shown_briefly
@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The A application models that one package serves.

    Attributes:
        models: those that the search sees.
        over: `mean` or `worst`: the search minimises the weighted mean or the maximum of the models' latencies and
            energies.
        nominal: index of the model that a package would be designed for without the ensemble.
        held_out: models that are reported but not searched for.
        name: name for people; that of the scenario.
        file: the file that it was read from, for errors; empty if there is none.
    """

    models: tuple[Member, ...]
    over: str = "mean"
    nominal: int = 0
    held_out: tuple[Member, ...] = ()
    name: str = "ensemble"
    file: str = ""

    def __post_init__(self) -> None:
        """Checks what a user can set."""
        members = [*self.models, *self.held_out]
        names = [member.name for member in members]
        if not self.models:
            raise self.complaint("has no application model", "models", "name at least one")
        for name in names:
            if names.count(name) > 1:
                raise self.complaint(f"two application models are called {name!r}", "models", "give each its own name")
        if self.over not in ("mean", "worst"):
            raise self.complaint(f"is {self.over!r}", "over", "use mean or worst")
        if not 0 <= self.nominal < len(self.models):
            raise self.complaint(f"there is no model {self.nominal}", "nominal", "number one of the models, from 0")
        if self.over == "worst" and len({member.weight for member in self.models}) > 1:
            raise self.complaint(
                "weights are those of a mean, the worst has none", "over", "leave the weights out, or use mean"
            )
        weights = [member.weight for member in self.models]
        if not 0 < max(weights) <= MOST_WEIGHT * min(weights):
            raise self.complaint(
                f"weights from {min(weights):g} to {max(weights):g} are too far apart",
                "models",
                f"use positive weights of which none is more than {MOST_WEIGHT:,.0f} times another, or list the model "
                "under held_out",
            )
        if (layers := sum(len(member.application.layers) for member in members)) > MAX_LAYERS:
            raise self.complaint(f"the models have {layers:,} layers together", "models", f"at most {MAX_LAYERS:,}")

    def complaint(self, message: str, item: str, remedy: str) -> InputError:
        """An error about this ensemble."""
        return InputError(message, file=self.file or None, item=item, remedy=remedy)

    @property
    def weights(self) -> np.ndarray:
        """Weights of the models, `[A]` float64, that add up to 1."""
        weight = np.asarray([member.weight for member in self.models], np.float64)
        weight = weight / weight.max()  # so that the sum cannot overflow
        return weight / weight.sum()

    @property
    def roles(self) -> tuple[str, ...]:
        """Role of every model: `nominal` or `searched`."""
        return tuple("nominal" if a == self.nominal else "searched" for a in range(len(self.models)))

    @functools.cached_property
    def joined(self) -> ApplicationModel:
        """The application model of all layers, one model after the other."""
        return joined([member.application for member in self.models], self.name)

    @functools.cached_property
    def everyone(self) -> ApplicationModel:
        """The application model of all layers, those of held-out models last."""
        return joined([member.application for member in (*self.models, *self.held_out)], self.name)

    def aggregate(self, objectives: ArrayLike) -> np.ndarray:
        """Combines the objectives of all models, `[A, ..., 3]`, into those of the ensemble, `[..., 3]` float64.

        Latency and energy are the weighted mean or the maximum (see `over`); the area is that of the package.
        """
        values = np.asarray(objectives, np.float64)
        if self.over == "worst":
            return values.max(axis=0)
        weight = self.weights.reshape(-1, *[1] * (values.ndim - 1))
        mean = np.sum(weight * values, axis=0)
        mean[..., 2] = values[..., 2].max(axis=0)  # all models have the same area
        return mean

    def record(self) -> dict[str, object]:
        """The ensemble as plain data, for `config.yaml` and hashes."""

        def told(member: Member) -> dict[str, object]:
            networks = [network.name for network in member.application.networks]
            out: dict[str, object] = {"name": member.name, "networks": networks, "batch": member.batch}
            return out | ({"scenario": member.scenario} if member.scenario else {})

        return {
            "format": "robust/1",
            "over": self.over,
            "nominal": self.models[self.nominal].name,
            "models": [told(member) | {"weight": member.weight} for member in self.models],
            "held_out": [told(member) for member in self.held_out],
        }


def joined(applications: Sequence[ApplicationModel], name: str = "joined") -> ApplicationModel:
    """Joins application models into one; networks keep their names, which may then occur more than once.

    Deadlines, frame rates and weights are reset: they hold for each model separately.
    """
    silent = {"deadline_s": float("inf"), "frames_per_second": 0.0, "weight": 1.0}
    networks = (dataclasses.replace(n, **silent) for application in applications for n in application.networks)
    return ApplicationModel(name, tuple(networks), joined=True)


def load_ensemble(
    path: str | os.PathLike[str], application: ApplicationModel, *, warn: Callable[[str], None] | None = None
) -> Ensemble:
    """Reads a `robust/1` file.

    Args:
        path: the YAML file.
        application: the scenario of models that name no other.
        warn: takes each warning about the other scenarios that the file names.

    Raises:
        InputError: the file cannot be read, is not well-formed, or names a network or a scenario that does not exist.

    Examples:
        >>> import pathlib
        >>> _ = pathlib.Path("models.yaml").write_text("models: [{name: all}, {name: one, networks: [resnet*]}]")
        >>> ensemble = load_ensemble("models.yaml", load_scenario("edge"))
        >>> [len(member.application.layers) for member in ensemble.models]
        [298, 54]
    """
    path = pathlib.Path(path)
    form = read_form(read_yaml(path), RobustForm, file=path)
    models = [_member(entry, f"models[{i}]", path, application, warn) for i, entry in enumerate(form.models)]
    held_out = [
        _member(entry, f"held_out[{i}]", path, application, warn) for i, entry in enumerate(form.held_out or [])
    ]
    names = [member.name for member in models]
    if form.nominal is not None and form.nominal not in names:
        raise InputError(
            f"no model is called {form.nominal!r}", file=path, item="nominal", remedy=f"name one of {', '.join(names)}"
        )
    nominal = 0 if form.nominal is None else names.index(form.nominal)
    return Ensemble(tuple(models), form.over, nominal, tuple(held_out), application.name, str(path))


def _member(
    form: MemberModelForm | HeldOutForm,
    where: str,
    path: pathlib.Path,
    application: ApplicationModel,
    warn: Callable[[str], None] | None,
) -> Member:
    source = application
    if form.scenario is not None:
        source = load_scenario(named_beside(form.scenario, path.parent), warn=warn)
    networks = source.networks if form.networks is None else _chosen(form.networks, source, path, f"{where}.networks")
    batch = form.batch or 1
    try:
        networks = tuple(with_batch(network, batch) for network in networks)
    except InputError as error:
        raise InputError(error.message, file=path, item=f"{where}.batch", remedy=error.remedy) from None
    weight = form.weight if isinstance(form, MemberModelForm) and form.weight is not None else 1.0
    return Member(ApplicationModel(form.name, networks), weight, batch, form.scenario or "")


def _chosen(
    patterns: Sequence[str], application: ApplicationModel, path: pathlib.Path, where: str
) -> tuple[Network, ...]:
    """The networks whose names match any of the patterns, in the order of the scenario."""
    names = [network.name for network in application.networks]
    for i, pattern in enumerate(patterns):
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise InputError(
                f"no network of {application.name} is called {pattern!r}",
                file=path,
                item=f"{where}[{i}]",
                remedy=f"its networks are {', '.join(names)}",
            )
    return tuple(n for n in application.networks if any(fnmatch.fnmatchcase(n.name, p) for p in patterns))
