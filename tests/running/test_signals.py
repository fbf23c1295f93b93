"""One interrupt that arrives twice is one; a second one, later, ends the process at once."""

import os
import signal

import pytest

from recollect.running import signals
from recollect.running.signals import SECOND_AFTER_S, Interrupts


@pytest.fixture
def clock(monkeypatch):
    """The time that the handler sees, in a list so that a test can move it."""
    now = [100.0]
    monkeypatch.setattr(signals.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def ended(monkeypatch):
    """Exit codes that the process would have ended with."""
    codes: list[int] = []
    monkeypatch.setattr(signals.os, "_exit", codes.append)
    return codes


def test_an_interrupt_that_arrives_twice_counts_once(clock, ended):
    with Interrupts() as interrupts:
        assert interrupts.exit_code() == 0
        os.kill(os.getpid(), signal.SIGINT)
        clock[0] += 0.9 * SECOND_AFTER_S
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.exit_code() == 130
    assert ended == []


def test_a_second_interrupt_after_a_second_ends_at_once(clock, ended):
    with Interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        clock[0] += SECOND_AFTER_S
        os.kill(os.getpid(), signal.SIGINT)
    assert ended == [130]


def test_other_signals_never_end_at_once_and_the_first_decides(clock, ended):
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        clock[0] += 10 * SECOND_AFTER_S
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.exit_code() == 143
    assert ended == []


def test_handlers_are_given_back():
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_terminal_that_closes_stops_unless_nobody_minds(clock, ended):
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interrupts.exit_code() == 129
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interrupts.exit_code() == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended == []
