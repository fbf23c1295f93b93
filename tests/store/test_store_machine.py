"""The store against a dictionary that follows its rules in plain Python, in any order of calls."""

import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from named_runs import RUNS, at, planned

from recollect.errors import SpecError
from recollect.rows import STATUSES
from recollect.store import MAX_LOST, Result, Store
from recollect.store.ownership import this_process


class Model:
    def __init__(self) -> None:
        self.status, self.attempt, self.lost, self.furthest = "todo", 0, 0, -1
        self.progressed, self.until, self.size, self.limit = False, 0.0, 0, None
        self.curve: dict[int, float] = {}

    def reach(self, step: int) -> None:
        if step > self.furthest:
            self.furthest, self.progressed, self.lost = step, True, 0


class StoreMachine(RuleBasedStateMachine):
    """Any order of calls by workers that may hold outdated claims;
    after each, the store says what the model says.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = Store.create(Path(self.folder.name))
        self.now = 1000.0
        self.store.clock = lambda: self.now
        self.model: dict[str, Model] = {}
        self.claims: list[dict[str, int]] = []

    def teardown(self) -> None:
        assert self.store.check() == []
        self.store.close()
        self.folder.cleanup()

    def held(self, claims: dict[str, int]) -> set[str]:
        mine = self.model.items()
        return {
            run
            for run, model in mine
            if model.status == "running" and claims.get(run) == model.attempt
        }

    @rule(run_ids=st.sets(st.sampled_from(RUNS)))
    def plan(self, run_ids: set[str]) -> None:
        new = run_ids - set(self.model)
        known = [self.model[run].status for run in run_ids - new]
        plan = self.store.plan(planned(*sorted(run_ids)), "sweep", "text")
        assert plan.new == len(new)
        assert plan.known == {status: known.count(status) for status in STATUSES}
        for run in sorted(new):
            self.model[run] = Model()

    @rule(run_ids=st.sets(st.sampled_from(RUNS), min_size=1), lease=st.integers(1, 50))
    def claim(self, run_ids: set[str], lease: int) -> None:
        free = {run for run in run_ids if run in self.model and self.model[run].status == "todo"}
        claims = self.store.claim(run_ids, this_process(), lease)
        for run in free:
            model = self.model[run]
            model.status, model.attempt, model.progressed = "running", model.attempt + 1, False
            model.until, model.size = self.now + lease, len(free)
        assert claims == {run: self.model[run].attempt for run in free}
        self.claims.append(claims)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), step=st.integers(0, 6), value=st.sampled_from([0.25, math.inf, -0.0]))
    def record(self, data: st.DataObject, step: int, value: float) -> None:
        claims = data.draw(st.sampled_from(self.claims))
        held = self.held(claims)
        assert (
            self.store.record(claims, [(run, at(step, value)) for run in claims])
            == set(claims) - held
        )
        for run in held:
            self.model[run].curve[step] = value
            self.model[run].reach(step)

    @precondition(lambda self: self.claims)
    @rule(
        data=st.data(),
        verb=st.sampled_from(["rewind", "progress", "release", "heartbeat"]),
        step=st.integers(-1, 6),
    )
    def touch(self, data: st.DataObject, verb: str, step: int) -> None:
        claims = data.draw(st.sampled_from(self.claims))
        held = self.held(claims)
        argument = {"rewind": step, "progress": step, "release": None, "heartbeat": 30}[verb]
        assert getattr(self.store, verb)(claims, argument) == set(claims) - held
        for model in (self.model[run] for run in held):
            if verb == "rewind":
                model.curve = {at: value for at, value in model.curve.items() if at <= step}
            elif verb == "progress":
                model.reach(step)
            elif verb == "release":
                model.status = "todo"
            else:
                model.until = self.now + 30

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), status=st.sampled_from(["done", "diverged", "failed"]))
    def finish(self, data: st.DataObject, status: str) -> None:
        claims = data.draw(st.sampled_from(self.claims))
        held = self.held(claims)
        why = {"diverged": {"diverged_step": 3}, "failed": {"failure": "oom: too large"}}.get(
            status, {}
        )
        results = [
            Result(run, attempt, status, 7, 1.0, at(7, 0.75), **why)
            for run, attempt in claims.items()
        ]
        assert self.store.finish(results) == set(claims) - held
        for run in held:
            self.model[run].status = status
            self.model[run].curve[7] = 0.75

    @rule(seconds=st.integers(1, 60))
    def time_passes_and_runs_are_reclaimed(self, seconds: int) -> None:
        self.now += seconds
        late = [
            run
            for run, model in self.model.items()
            if model.status == "running" and model.until < self.now
        ]
        assert sorted(self.store.reclaim(lambda owner: False)) == sorted(late)
        for model in (self.model[run] for run in late):
            model.status = "todo"
            if not model.progressed:
                model.lost, model.limit = model.lost + 1, max(1, model.size // 2)
                model.status = "failed" if model.lost >= MAX_LOST and model.size == 1 else "todo"

    @rule()
    def reopen(self) -> None:
        failed = [run for run, model in self.model.items() if model.status == "failed"]
        assert sorted(self.store.reopen_failed()) == sorted(failed)
        for run in failed:
            self.model[run].status, self.model[run].lost = "todo", 0

    @rule(run_ids=st.sets(st.sampled_from(RUNS)))
    def unplan(self, run_ids: set[str]) -> None:
        own = {run: self.model[run] for run in run_ids & self.model.keys()}
        begun = {run for run, model in own.items() if model.attempt or model.status != "todo"}
        if any(model.status == "running" for model in self.model.values()):
            with pytest.raises(SpecError, match="runs are taken back while none does"):
                self.store.unplan("sweep", run_ids)
            return
        found = self.store.unplan("sweep", run_ids)
        assert found == (len(own) - len(begun), 0, len(begun))
        for run in own.keys() - begun:
            del self.model[run]

    @invariant()
    def store_is_as_the_model_says(self) -> None:
        statuses = [model.status for model in self.model.values()]
        assert self.store.counts() == {status: statuses.count(status) for status in STATUSES}
        rows = {row.run_id: (row.status, row.attempt) for row in self.store.rows()}
        assert rows == {run: (model.status, model.attempt) for run, model in self.model.items()}
        todo = {run.run_id: run.pack_limit for run in self.store.todo()}
        assert todo == {
            run: model.limit for run, model in self.model.items() if model.status == "todo"
        }
        curves = {
            run: {point.step: point.accuracy for point in curve}
            for run, curve in self.store.curves().items()
        }
        assert repr(sorted(curves.items())) == repr(
            sorted(
                (run, dict(sorted(model.curve.items())))
                for run, model in self.model.items()
                if model.curve
            )
        )


StoreMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestStoreMachine = StoreMachine.TestCase
