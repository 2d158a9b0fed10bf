"""Job scheduling on given accelerators: G#, its baselines, heuristics and lower bounds."""

from mohamjax.search.jobs.bounds import JobBound, job_bound
from mohamjax.search.jobs.genetic import DEFAULT_RATES, PAPER_RATES, STANDARD_RATES, JobRates, gsharp_problem
from mohamjax.search.jobs.heuristics import HEURISTICS, Plan, run_heuristic
from mohamjax.search.jobs.loop_nest import MAPPING_CHOICES, nest_analyses
from mohamjax.search.jobs.problem import (
    OBJECTIVES,
    JobGenes,
    JobProblem,
    check_size,
    decode,
    evaluate,
    job_problem,
    objective_names,
)
from mohamjax.search.jobs.scheduler import (
    METHODS,
    SEEDS,
    JobFront,
    JobGoals,
    JobSchedule,
    JobSearchConfig,
    check_goals,
    check_method,
    check_problem,
    evaluate_plans,
    genes_of,
    run_method,
    search_islands,
    seed_plans,
)
from mohamjax.search.jobs.transfer import RankedSchedule, apply_ranked, ranked_schedule

__all__ = [
    "DEFAULT_RATES",
    "HEURISTICS",
    "MAPPING_CHOICES",
    "METHODS",
    "OBJECTIVES",
    "PAPER_RATES",
    "SEEDS",
    "STANDARD_RATES",
    "JobBound",
    "JobFront",
    "JobGenes",
    "JobGoals",
    "JobProblem",
    "JobRates",
    "JobSchedule",
    "JobSearchConfig",
    "Plan",
    "RankedSchedule",
    "apply_ranked",
    "check_goals",
    "check_method",
    "check_problem",
    "check_size",
    "decode",
    "evaluate",
    "evaluate_plans",
    "genes_of",
    "gsharp_problem",
    "job_bound",
    "job_problem",
    "nest_analyses",
    "objective_names",
    "ranked_schedule",
    "run_heuristic",
    "run_method",
    "search_islands",
    "seed_plans",
]
