"""Evolutionary multi-objective core: ranking, survival, constraints, hypervolume, archive, landmarks, stopping."""

from mohamjax.emo._arrays import positive, with_spare_rows
from mohamjax.emo.archive import Archive, archive_init, archive_size, archive_update
from mohamjax.emo.front import distinct_front, extremes, knee_point, landmark_rows, volume_subset
from mohamjax.emo.hypervolume import hypervolume
from mohamjax.emo.nsga2 import NSGA2, Archived, ArchivedState, NSGA2State, evolve
from mohamjax.emo.ranking import (
    PENALTY,
    constrained,
    crowding_distance,
    feasible,
    non_dominated_rank,
    survive,
    tournament,
)
from mohamjax.emo.stopping import should_stop, stability

__all__ = [
    "NSGA2",
    "PENALTY",
    "Archive",
    "Archived",
    "ArchivedState",
    "NSGA2State",
    "archive_init",
    "archive_size",
    "archive_update",
    "constrained",
    "crowding_distance",
    "distinct_front",
    "evolve",
    "extremes",
    "feasible",
    "hypervolume",
    "knee_point",
    "landmark_rows",
    "non_dominated_rank",
    "positive",
    "should_stop",
    "stability",
    "survive",
    "tournament",
    "volume_subset",
    "with_spare_rows",
]
