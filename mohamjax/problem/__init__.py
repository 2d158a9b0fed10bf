"""The design problem (networks, templates, technology, package, requirements) and the space of designs it yields."""

from mohamjax.problem.design_problem import DesignProblem, check_tables, search_keys
from mohamjax.problem.goals import Goals
from mohamjax.problem.requirements import Requirements, load_requirements
from mohamjax.problem.resolved import ResolvedRequirements, resolve
from mohamjax.problem.space import DesignSpace

__all__ = [
    "DesignProblem",
    "DesignSpace",
    "Goals",
    "Requirements",
    "ResolvedRequirements",
    "check_tables",
    "load_requirements",
    "resolve",
    "search_keys",
]
