"""The page while a sweep runs: news arrive, and what the reader has chosen stays."""

import threading
import time

import pytest
from rows_made import make_row
from stores_made import finish, make_store

from recollect.reports.page import server as page_server
from recollect.reports.page.server import serving
from recollect.store import Store


def planned(mixer, status="todo", score=None, width=64):
    return make_row(mixer, score=score, status=status, model={"width": width})


@pytest.fixture
def served(tmp_path, monkeypatch):
    monkeypatch.setattr(page_server, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(page_server, "REST", 0.0)
    monkeypatch.setattr("recollect.reports.page.rendering.ASK_EVERY_MS", 100)
    rows = [planned("attention", "done", 0.5, width) for width in (64, 128)]
    make_store(tmp_path, [*rows, *(planned("mamba", width=width) for width in (64, 128))])
    with serving([tmp_path]) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_news_arrive_and_choices_stay(desk, served, tmp_path):
    tab = desk.open(
        served.address, may_complain=True
    )  # the browser complains of a server that has gone
    answers = []
    tab.on("response", lambda response: answers.append(response.status))
    tab.wait_for_selector("#rates-plots .plot .main-svg")
    tab.select_option("#rates-width", "128")
    tab.select_option("#rates-band", "2")
    tab.locator("#runs th button", has_text="rate").click()
    tab.evaluate("document.querySelector('#rates-plots').dataset.same = 'yes'")
    with Store.open(tmp_path) as store:
        finish(store, [planned("mamba", "done", 0.25, width) for width in (64, 128)])
    tab.get_by_text("4 planned = 4 done").wait_for()
    assert 304 in answers, "without news nothing is sent"
    names = (
        "() => document.querySelector('#rates-plots .plot').data.filter((t) => t.name).map((t) => "
        "t.name)"
    )
    assert tab.evaluate(names) == ["attention"], "what is out of sight waits"
    tab.locator("#rates h2").scroll_into_view_if_needed()
    deadline = time.monotonic() + 120
    while tab.evaluate(names) != ["attention", "mamba"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert tab.locator("#rates-plots figcaption").all_text_contents() == [
        "mqar, length 64, pairs 4 · width 128 · 2 layers"
    ]
    assert (tab.input_value("#rates-width"), tab.input_value("#rates-band")) == ("128", "2")
    assert tab.evaluate("document.querySelector('#rates-plots').dataset.same") == "yes", (
        "the page was not loaded again"
    )
    assert tab.locator("#runs th[aria-sort=ascending]").count() == 1
    assert tab.locator("#live").text_content().startswith("live · as of ")

    (tmp_path / "recollect.db").write_bytes(b"no database")
    tab.locator("#live", has_text="damaged").wait_for()
    assert tab.evaluate(names) == ["attention", "mamba"]

    served.shutdown()
    served.server_close()
    tab.locator("#live", has_text="no longer live").wait_for()
    assert tab.evaluate(names) == ["attention", "mamba"]
