"""JSON schemas of the files that are read and written, generated from the readers' forms."""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec

from mohamjax.errors import InputError
from mohamjax.forms import Form, OpenForm
from mohamjax.hardware import PackageForm, TechnologyForm, TemplateForm
from mohamjax.io import forms
from mohamjax.io.jobs import PlatformForm
from mohamjax.problem.requirements import RequirementsForm
from mohamjax.reader import suggestion
from mohamjax.workload.ensemble import RobustForm
from mohamjax.workload.scenario import ScenarioForm

FORMS: dict[str, type[Form | OpenForm]] = {
    "schedule/1": forms.SchedulesForm,
    "designs/1": forms.DesignsForm,
    "job-table/1": forms.JobTableForm,
    "fluid-schedule/1": forms.FluidForm,
    "package-schedule/1": forms.PackageSchedulesForm,
    "mappings/1": forms.MappingsForm,
    "job-transfer/1": forms.TransferForm,
    "template/1": TemplateForm,
    "technology/1": TechnologyForm,
    "package": PackageForm,
    "requirements/1": RequirementsForm,
    "robust/1": RobustForm,
    "scenario": ScenarioForm,
    "platform": PlatformForm,
    "schedule/1-answer": forms.SchedulesAnswerForm,
    "job-table/1-answer": forms.JobTableAnswerForm,
    "fluid-schedule/1-answer": forms.FluidAnswerForm,
    "package-schedule/1-answer": forms.PackageSchedulesAnswerForm,
}
"""Forms of whole files by name; an answer is what `evaluate schedules` writes for an input of that format."""


def schema(name: str) -> dict[str, object]:
    """The JSON schema (draft 2020-12) of a file format.

    It accepts what the readers accept, except that no schema can check that names differ, that indices into other lists
    exist, that no jobs wait for each other, and that loop nests fit.

    Args:
        name: a name of `FORMS`; the version may be left out, and `-` may replace `/`, as in the names of the published
            files.

    Raises:
        InputError: there is no such name.

    Examples:
        >>> schema("fluid-schedule/1")["required"]
        ['format', 'cases']
    """

    def names(known: str) -> tuple[str, ...]:
        return known, known.partition("/")[0], known.replace("/", "-"), f"{known.replace('/', '-')}.json"

    name = next((known for known in FORMS if name in names(known)), name)
    if name not in FORMS:
        raise InputError(f"there is no schema {name!r}", remedy=suggestion(name, FORMS))
    made = json.loads(json.dumps(msgspec.json.schema(FORMS[name])), object_hook=_settled)
    own = made["$defs"].pop(FORMS[name].__name__)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", **own, "title": name}
    return {**head, "$defs": made["$defs"]} if made["$defs"] else head


def _settled(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a schema without what differs between msgspec's versions: a docstring's indents, the order of types."""
    if isinstance(part.get("description"), str):
        part["description"] = inspect.cleandoc(part["description"])
    if isinstance(part.get("anyOf"), list):
        part["anyOf"].sort(key=lambda kind: (kind == {"type": "null"}, json.dumps(kind, sort_keys=True)))
    return part
