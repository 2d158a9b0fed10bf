"""Forms of the JSON documents that are read: keys, types and ranges. `io.schemas` publishes them as JSON schemas.

The readers check what a form cannot: that names differ, list lengths, and indices into other lists.

If an optional key is misspelt, it looks as if it had been left out. Objects with optional keys therefore accept no
unknown keys (`Form`): whole files, chiplets and their sizes, layers, networks, jobs. The informational keys that our
own writers add are listed. Designs, the steps of their schedules, cases with stated costs and loop nests nevertheless
accept unknown keys, for notes and figures of other tools; their optional keys are only informational names and numbers.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, defstruct, field

from mohamjax.dims import LayerType
from mohamjax.forms import Bound, Bounds, Form, Index, OpenForm, Pair, Positive, Text, Whole, as_written
from mohamjax.hardware import Contention, PackageForm, RecordForm, TemplateForm
from mohamjax.mapping.notation import NestForm, OwnedNestForm, WrittenNestForm
from mohamjax.schedule.chiplet_measures import CHIPLET_MEASURES

Reference = Annotated[Index | Text, Meta(description="a name or a 0-based number")]
"""A reference to a job, accelerator or resource."""

_LARGEST = sys.float_info.max

LARGEST_COST = 1e18
"""Most time units (thirty years at 1 GHz) or bytes of a job, so that sums and products stay within range of floats."""

Cost = Annotated[float, Meta(ge=0, le=LARGEST_COST)]
"""A time or a number of bytes."""

Rate = Annotated[float, Meta(ge=1e-6, le=LARGEST_COST)]
"""A bandwidth, bytes per time unit."""

MOST_ASKED = 1e30
"""Most bytes per time unit that a job may ask for; within the range of single precision."""

LARGEST_ENERGY = 1e9
"""Most J of a job."""

LARGEST_WEIGHT = 1e9
"""Largest weight of a job."""

Joules = Annotated[float, Meta(ge=0, le=LARGEST_ENERGY)]
"""The energy of a job [J]."""

Weight = Annotated[float, Meta(ge=0, le=LARGEST_WEIGHT)]
"""The weight of a job."""

Unit = Annotated[
    Literal["cycles", "s"],
    Meta(description="cycles, or s for seconds, and give all times, and bandwidths per time unit, in it"),
]

ForPeople = Annotated[object, Meta(description="for people: readers leave it alone")]


# ---------------------------------------------------------------- designs/1, schedule/1


class SizeForm(Form):
    """Sizes of one level of a chiplet; what is null is made just large enough."""

    name: str
    capacity_words: Annotated[float, Meta(ge=0, lt=2**53)] | None = None
    fanout: Annotated[tuple[Whole, Whole], Meta(description="[X, Y], two positive integers")] | None = None


class _ChipletForm(Form):
    template: str
    tile: Index | None = None
    levels: list[SizeForm] | None = None


_CHIPLET_FIGURES = (*CHIPLET_MEASURES, "interface", "hops")

if TYPE_CHECKING:

    class ChipletForm(_ChipletForm):
        """A chiplet; beside what is read it may state its figures (`_CHIPLET_FIGURES`)."""

else:
    ChipletForm = defstruct(
        "ChipletForm",
        [(name, ForPeople, None) for name in _CHIPLET_FIGURES],
        bases=(_ChipletForm,),
        module=__name__,
        namespace={"__doc__": "A chiplet; without `levels` it is made just large enough."},
    )


class StepForm(OpenForm):
    """A layer of a schedule, in order of priority."""

    layer: Annotated[Index | str, Meta(description="the number of a layer, or its name as network/layer")]
    chiplet: Annotated[Index, Meta(description="the number of a chiplet of the design")]
    mapping: Annotated[Index, Meta(description="an index into `mappings`")]


Called = Annotated[str, Meta(min_length=1, max_length=200)]


class CalledForm(OpenForm):
    """What a design or schedule is called; its place in the file where it says nothing."""

    design_id: int | Called | None = None
    name: int | Called | None = None


class DesignForm(CalledForm, kw_only=True):
    """A design: chiplets in their order on the mesh, and every layer once."""

    chiplets: Annotated[list[ChipletForm], Meta(min_length=1)]
    schedule: list[StepForm]


class _LatencyPartsForm(Form):
    path: float
    work: float
    traffic: float
    balance: float


class _LeastForm(Form):
    latency_s: float
    energy_J: float
    area_mm2: float
    latency_parts_s: _LatencyPartsForm


_WrittenChipletForm = as_written(
    ChipletForm,
    may_lack=(),
    **dict.fromkeys(CHIPLET_MEASURES, float),
    interface=int,
    hops=int,
    levels=list[as_written(SizeForm)],
)
_STEP_FIGURES = ("start_s", "end_s", "alone_s", "offchip_bytes", "macs_per_cycle", "utilisation", "energy_J")
_WrittenStepForm = as_written(StepForm, **dict.fromkeys(_STEP_FIGURES, float))
_WrittenDesignForm = as_written(
    DesignForm,
    may_lack=("name",),
    latency_s=float,
    energy_J=float,
    area_mm2=float,
    bounds=_LeastForm,
    chiplets=Annotated[list[_WrittenChipletForm], Meta(min_length=1)],
    schedule=list[_WrittenStepForm],
)

_DESIGN_PARTS: dict[str, object] = {"chiplets": _WrittenChipletForm, "schedule": _WrittenStepForm}

DESIGN_PARTS: dict[str, object] = {
    **_DESIGN_PARTS,
    "designs": (_WrittenDesignForm, _DESIGN_PARTS),
    "schedules": _DESIGN_PARTS,
    "mappings": WrittenNestForm,
}
"""The parts of a document with designs, or of a single design, that `files.parse_json` reads by their forms."""


class NetworkForm(Form):
    """A network of the application."""

    name: str | None = None
    source: str | None = None
    deadline_s: Positive | None = None
    frames_per_second: Positive | None = None
    weight: Positive | None = None


class LayerForm(Form, kw_only=True):
    """A layer; those of a network stand together, each after its predecessors."""

    network: Index
    type: LayerType
    bounds: Bounds
    name: str | None = None
    op: str | None = None
    word_bits: Bound = 8
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    predecessors: Annotated[list[Index], Meta(description="earlier layers of the same network")] = field(
        default_factory=list
    )


class _WholeForm(Form, kw_only=True):
    """What `designs/1` and `schedule/1` share."""

    mohamjax: str | None = None
    clock_GHz: Annotated[float, Meta(ge=1, le=1, description="1: all times are at 1 GHz")] = 1
    technology: RecordForm | None = None
    templates: Annotated[list[TemplateForm | Text], Meta(min_length=1, description="one template or more")]
    package: PackageForm | None = None
    mappings: list[OwnedNestForm]


class DesignsForm(_WholeForm, kw_only=True):
    """Designs with all that they need."""

    format: Literal["designs/1"]
    scenario: str | None = None
    networks: list[NetworkForm | str]
    layers: Annotated[list[LayerForm], Meta(min_length=1, description="the layers of every network")]
    designs: list[DesignForm]
    objectives: list[Text] | None = None
    bounds: ForPeople = None


class SchedulesForm(_WholeForm, kw_only=True):
    """Schedules that users write: the networks are named, not listed."""

    format: Literal["schedule/1"]
    application: Annotated[Text | list[Text], Meta(description="a scenario by name or file, or a list of ONNX files")]
    schedules: list[DesignForm]


# ---------------------------------------------------------------- fluid-schedule/1


class CaseForm(CalledForm, kw_only=True):
    """A schedule with its costs written out: a list has an entry per job, accelerator or resource."""

    duration: list[Cost]
    bytes: list[Cost]
    predecessors: list[list[Index]]
    accelerator: list[Index]
    order: list[Index]
    resource_bandwidth: list[Rate | None]
    resources_of_accelerator: list[list[Index]]
    resource_names: list[Text] | None = None
    jobs: Index | None = None
    accelerators: Index | None = None


class FluidForm(Form):
    """Schedules with their costs."""

    format: Literal["fluid-schedule/1"]
    cases: list[CaseForm]


# ---------------------------------------------------------------- package-schedule/1

Unlimited = Rate | None
"""A bandwidth; null where nothing limits."""


class BandwidthsForm(Form, kw_only=True):
    """Bytes per cycle; null where nothing limits."""

    interface: Annotated[Unlimited, Meta(description="of each memory interface")]
    link: Annotated[Unlimited, Meta(description="of each chiplet's link, and of links between routers")]
    dram: Annotated[Unlimited, Meta(description="of the whole memory")]
    sram: Annotated[Unlimited, Meta(description="of the SRAM beside each chiplet")]


class EdgeForm(Form, kw_only=True):
    """What a layer reads of the output of another one."""

    source: Index = field(name="from")
    operand: Annotated[Literal["input", "weight"], Meta(description="for people: nothing depends on it")] = "input"
    bytes: Cost


class HandoverLayerForm(OpenForm, kw_only=True):
    """The costs of a layer: cycles, bytes that may stay in an SRAM, and bytes that its mapping moves."""

    duration: Cost
    output_bytes: Cost
    weight_bytes: Cost
    weights: Cost
    external: Cost
    outputs_read: Cost
    outputs_written: Cost
    edges: list[EdgeForm]


class HandoverForm(CalledForm, kw_only=True):
    """A schedule on a package that hands data on. `order` lists layers by priority; other lists have one entry each."""

    chiplets: Annotated[int, Meta(ge=1, le=1024)]
    contention: Contention
    bandwidth: BandwidthsForm
    layers: Annotated[list[HandoverLayerForm], Meta(min_length=1)]
    assignment: Annotated[list[Index], Meta(description="the chiplet of each layer")]
    order: list[Index]
    keep: Annotated[list[bool], Meta(description="whether the output stays in the SRAM of the chiplet")]
    resident: Annotated[list[bool], Meta(description="whether the weights are in the SRAM of the chiplet")]


class PackageSchedulesForm(Form):
    """Schedules on packages that hand data on, with their costs."""

    format: Literal["package-schedule/1"]
    cases: list[HandoverForm]


# ---------------------------------------------------------------- job-table/1

_EACH = Meta(description="a number per accelerator, null where the job cannot run, or one for all")
Costs = Annotated[list[Cost | None] | Cost | None, _EACH]
Energies = Annotated[list[Joules | None] | Joules | None, _EACH]


class ResourceForm(OpenForm):
    """What off-chip traffic passes; a bandwidth of null is unlimited."""

    name: Text
    bandwidth: Rate | None


class AcceleratorForm(OpenForm):
    """An accelerator and the resources that its traffic passes."""

    name: Text
    resources: list[Reference]


class JobForm(Form):
    """A job with its costs per accelerator; what its tenant wants of it, where anybody says so."""

    name: Text
    duration: Costs
    bytes: Costs
    energy_J: Energies | UnsetType = UNSET
    predecessors: list[Reference] = field(default_factory=list)
    tenant: str | None = None
    weight: Weight | None = None
    deadline: Cost | None = None
    target: Index | None = None


class OrderForm(CalledForm, kw_only=True):
    """A schedule: all jobs by priority, and where each runs, in the order of `jobs` or by the jobs' names."""

    order: list[Reference]
    accelerator: Annotated[
        list[Reference] | dict[str, Reference],
        Meta(description="where each job runs: a list in the order of `jobs`, or a mapping from every job's name"),
    ]


class JobTableForm(Form, kw_only=True):
    """Costs per job and accelerator, and schedules over them."""

    format: Literal["job-table/1"]
    time_unit: Unit = "cycles"
    resources: list[ResourceForm]
    accelerators: Annotated[list[AcceleratorForm], Meta(min_length=1, description="one accelerator or more")]
    jobs: list[JobForm]
    schedules: list[OrderForm] | None = None


# ---------------------------------------------------------------- mappings/1


class MappingSetForm(Form, kw_only=True):
    """Mappings of one kind of layer on one template, and the width of its operands if it is not the template's own."""

    template: str
    word_bits: Whole | None = None
    type: LayerType
    bounds: Bounds
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    mappings: list[NestForm]
    layer: ForPeople = None
    layers: ForPeople = None


class MappingsForm(Form):
    """Loop nests of your own."""

    format: Literal["mappings/1"]
    sets: list[MappingSetForm]
    mohamjax: ForPeople = None
    search: ForPeople = None
    offchip_bytes_per_cycle: ForPeople = None
    networks: ForPeople = None


# ---------------------------------------------------------------- job-transfer/1


class MeasuredForm(Form, rename={"mean_end": "mean-end"}):
    """What the schedule reached where it was learnt; names of objectives of G#."""

    makespan: float | UnsetType = UNSET
    energy: float | UnsetType = UNSET
    edp: float | UnsetType = UNSET
    unsatisfied: float | UnsetType = UNSET
    tardiness: float | UnsetType = UNSET
    mean_end: float | UnsetType = UNSET
    lateness: float | UnsetType = UNSET
    missed: float | UnsetType = UNSET


class LearntForm(Form, kw_only=True):
    """Where a schedule comes from."""

    batch: str | None = None
    method: Text
    time_unit: Unit
    objectives: MeasuredForm


class TransferForm(Form, kw_only=True):
    """What G# keeps of a schedule for another batch."""

    format: Literal["job-transfer/1"]
    mohamjax: str | None = None
    learnt: LearntForm
    accelerators: Annotated[list[Text], Meta(min_length=1, description="the name of every accelerator")]
    accelerator: list[Index]
    place: list[Index]


# ---------------------------------------------------------------- answers


class SlowedForm(Form):
    """A stretch in which a job is slowed to a share of its rate, and by what."""

    start: float
    end: float
    rate: float
    resource: str


Reason = Annotated[str | UnsetType, Meta(description="why there is no makespan; only where there is none")]


class CaseAnswerForm(Form, kw_only=True):
    """Times of a case, an entry per job; a broken case has the reason instead."""

    name: int | str
    start: list[float] | UnsetType = UNSET
    end: list[float] | UnsetType = UNSET
    makespan: float | None
    reason: Reason = UNSET
    stall: list[float] | UnsetType = UNSET
    slowed: list[list[SlowedForm]] | UnsetType = UNSET


class FluidAnswerForm(Form):
    """What `evaluate schedules` makes of a `fluid-schedule/1` file."""

    format: Literal["fluid-schedule/1"]
    cases: list[CaseAnswerForm]


class HandoverAnswerForm(Form, kw_only=True):
    """Times [cycles] and bytes of a schedule: an entry per layer, for `sram_capacity` one per chiplet.

    A broken schedule has the reason instead.
    """

    name: int | str
    start: list[float] | UnsetType = UNSET
    end: list[float] | UnsetType = UNSET
    makespan: float | None
    reason: Reason = UNSET
    dram_bytes: list[float] | UnsetType = UNSET
    sram_bytes: list[float] | UnsetType = UNSET
    nop_byte_hops: float | UnsetType = UNSET
    sram_capacity: list[float] | UnsetType = UNSET
    stall: list[float] | UnsetType = UNSET
    slowed: list[list[SlowedForm]] | UnsetType = UNSET


class PackageSchedulesAnswerForm(Form):
    """What `evaluate schedules` makes of a `package-schedule/1` file."""

    format: Literal["package-schedule/1"]
    cases: list[HandoverAnswerForm]


class OrderAnswerForm(Form):
    """Objectives of a schedule over a job table, and with timelines the times, an entry per job.

    A broken schedule has the reason instead.
    """

    name: int | str
    makespan: float | None
    energy_J: float | None
    reason: Reason = UNSET
    start: list[float] | UnsetType = UNSET
    end: list[float] | UnsetType = UNSET
    stall: list[float] | UnsetType = UNSET
    slowed: list[list[SlowedForm]] | UnsetType = UNSET


class JobTableAnswerForm(Form):
    """What `evaluate schedules` makes of a `job-table/1` file."""

    format: Literal["job-table/1"]
    time_unit: Unit
    schedules: list[OrderAnswerForm]


class RunForm(Form):
    """When and where a layer runs."""

    network: str
    layer: str
    chiplet: Index
    start_s: float
    end_s: float


class ScheduleAnswerForm(Form):
    """Objectives of a schedule, null where it is broken, for the reason given."""

    name: int | str
    latency_s: float | None
    energy_J: float | None
    area_mm2: float | None
    valid: bool
    reason: str
    timeline: list[RunForm] | UnsetType = UNSET


class SchedulesAnswerForm(Form):
    """What `evaluate schedules` makes of a `schedule/1` or `designs/1` file."""

    format: Literal["schedule/1"]
    schedules: list[ScheduleAnswerForm]


# ---------------------------------------------------------------- evaluation-journal/1

_Count = Annotated[int, Meta(ge=0, lt=2**62)]


class MarkForm(Form, kw_only=True):
    """A line of a journal: how much of a table is whole, and the file and entry that come next."""

    rows: _Count
    valid: _Count
    next: Annotated[list[_Count], Meta(min_length=2, max_length=2, description="[file, entry]")]
    bytes: _Count = 0
    ended: bool = False


# ---------------------------------------------------------------- bounds/1

_Finite = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]

_Point = Annotated[list[Positive], Meta(min_length=3, max_length=3, description="latency [s], energy [J], area [mm^2]")]


class BoxForm(OpenForm):
    """Lower and upper corner."""

    ideal: _Point
    reference: _Point


_Step = Annotated[list[Annotated[float, Meta(ge=0, le=_LARGEST)]], Meta(min_length=2, max_length=2)]


class CurveForm(OpenForm):
    """Least second objectives over the first one."""

    columns: list[str]
    steps: Annotated[list[_Step], Meta(min_length=1, description="pairs of numbers of at least 0")]


class BoundsForm(OpenForm):
    """What no front of a search has more than."""

    hypervolume: _Finite
    hypervolume_bound: _Finite
    box: BoxForm
    curves: dict[str, CurveForm]
