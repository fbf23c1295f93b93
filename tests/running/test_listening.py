"""What a listener raises reaches no run: training saves, stops, and only then tells it."""

import pytest

from recollect import api
from recollect.errors import ResourceError, Stopped
from recollect.running import engine
from recollect.running import pack as packs
from recollect.running.events import Advanced, Remark, RunEnded, RunsEvaluated
from recollect.running.listening import GuardedListener
from recollect.running.signals import never
from recollect.spec.sweep import Sweep


@pytest.mark.parametrize("kind", [Advanced, RunsEvaluated, RunEnded])
def test_what_a_listener_raises_fails_no_run(tmp_path, make_run, kind, monkeypatch):
    monkeypatch.setattr(packs, "SAVE_EVERY_S", 0.0)
    runs = tuple(make_run(seed=seed) for seed in (1, 2, 3))
    heard = []

    def listen(event):
        heard.append(event)
        if isinstance(event, kind):
            raise BrokenPipeError("nobody listens")

    with pytest.raises(BrokenPipeError, match="nobody listens"):
        engine.train(tmp_path, [Sweep("sweep", "", runs)], listen=listen, device="cpu")
    assert sum(isinstance(event, kind) for event in heard) == 1, "it is not asked again"
    assert not {row.status for row in api.Results.load(tmp_path).rows} & {"failed", "running"}
    assert engine.train(tmp_path, device="cpu").counts["done"] == 3


def refuse(event):
    raise ValueError("of the listener")


def hear_and_raise(error: Exception) -> None:
    with GuardedListener(refuse, never) as guarded:
        guarded.hear(Remark("text"))
        assert guarded.stop() != 0
        raise error


def test_another_error_comes_first_and_a_stop_last():
    with pytest.raises(ResourceError, match="no disk"):
        hear_and_raise(ResourceError("no disk"))
    with pytest.raises(ValueError, match="of the listener"):
        hear_and_raise(Stopped("stopped", 143))


def test_a_stop_that_was_asked_for_is_passed_on():
    assert GuardedListener(lambda event: None, lambda: 143).stop() == 143
    assert GuardedListener(lambda event: None, never).stop() == 0
