"""The live page: for readers on this machine, read-only,
fresh when the store is and standing when it is not.
"""

import http.client
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from rows_made import make_row
from stores_made import finish, make_store, plan

from recollect.errors import SpecError, StoreError
from recollect.reports.page import server as page_server
from recollect.reports.page.server import PageServer, WatchedFolders, serving
from recollect.store import Store


@contextmanager
def answering(watched):
    """A server whose page changes only when the test says so."""
    with PageServer(watched, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path="/", method="GET", host=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    for name, value in {"Host": host or f"127.0.0.1:{server.server_port}", **headers}.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.fixture
def watched(tmp_path):
    make_store(tmp_path, [make_row(), make_row("mamba", score=None, status="todo")])
    found = WatchedFolders([tmp_path])
    assert found.refresh()
    return found


@pytest.fixture
def server(watched):
    with answering(watched) as found:
        yield found


# --- what is served


def test_the_page_and_its_updates(server):
    page, update = ask(server)[1], ask(server, "/update?x=1")[1]
    assert b"plotly.js" in page
    assert len(update) < 60_000
    for body in (page, update):
        assert b"2 planned = 1 done + 0 diverged + 0 failed + 0 running + 1 todo" in body
        assert b"data-every" in body


def test_nothing_new_costs_nothing(server):
    first, _ = ask(server, "/update")
    again, body = ask(server, "/update", If_None_Match=first.headers["ETag"])
    assert (again.status, body) == (304, b"")


def test_an_update_brings_what_has_ended_meanwhile(server, watched):
    before = ask(server, "/update")[0].headers["ETag"]
    with Store.open(watched.folders[0]) as store:
        finish(store, [make_row("mamba", score=0.5)])
    assert watched.refresh()
    answer, body = ask(server, "/update", If_None_Match=before)
    assert answer.status == 200
    assert b"2 planned = 2 done" in body
    assert not watched.refresh(), "nothing has changed since"


def test_headers_keep_the_page_to_itself(server):
    answer, _ = ask(server)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "Python" not in answer.headers["Server"]


def test_head_has_no_body(server):
    answer, body = ask(server, method="HEAD")
    assert (answer.status, body) == (200, b"")
    _, page = ask(server)
    assert int(answer.headers["Content-Length"]) == len(page)


# --- what is refused


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1.evil.example:{port}",
        "[::1]:{port}",
        " ",
    ],
)
def test_a_foreign_host_is_refused(server, host):
    answer, body = ask(server, host=host.format(port=server.server_port))
    assert answer.status == 403
    assert b"planned" not in body


def test_a_request_without_a_host_or_with_two_is_refused(server):
    for lines in (
        "",
        "Host: 127.0.0.1:{0}\r\nHost: evil.example\r\n",
        "Host: evil.example\r\nHost: localhost:{0}\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\n{lines.format(server.server_port)}\r\n".encode())
            assert b" 403 " in connection.recv(100)


def test_localhost_is_this_machine(server):
    assert ask(server, host=f"LocalHost:{server.server_port}")[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_the_page_can_only_be_read(server, method):
    answer, _ = ask(server, method=method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path",
    [
        "/recollect.db",
        "/../recollect.db",
        "//etc/passwd",
        "/%2e%2e/recollect.db",
        "/update/",
        "/index.html",
        "/./",
        "*",
    ],
)
def test_no_other_path_is_known(server, path):
    answer, body = ask(server, path)
    assert (answer.status, body) == (404, b"There are / and /update here.")


@pytest.fixture
def guarded(watched):
    with PageServer(watched, 0, token="secret-token") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("/update", {}),
        ("/?token=", {}),
        ("/?token=secret-toke", {}),
        ("/?token=secret-token2", {}),
        ("/?token=s%C3%A9cret", {}),
        ("/?other=secret-token", {}),
        ("/", {"Cookie": "recollect-1=secret-token"}),
        ("/", {"Cookie": "token=secret-token"}),
        ("/", {"Cookie": "\x01=;;"}),
        ("/missing", {}),
    ],
)
def test_without_its_token_nothing_is_shown(guarded, path, headers):
    answer, body = ask(guarded, path, **headers)
    assert (answer.status, answer.getheader("Set-Cookie")) == (403, None)
    assert body == b"Open the address with its token, as `recollect watch --token` printed it."


def test_with_its_token_the_page_is_shown_and_goes_on_by_its_cookie(guarded):
    assert guarded.address.endswith("/?token=secret-token")
    answer, body = ask(guarded, "/?token=secret-token")
    assert (answer.status, body) == (200, guarded.watched.shown.page)
    cookie = answer.getheader("Set-Cookie")
    assert cookie.endswith("; HttpOnly; SameSite=Strict")
    answer, body = ask(guarded, "/update", Cookie=cookie.partition(";")[0])
    assert (answer.status, body) == (200, guarded.watched.shown.update)
    foreign, _ = ask(guarded, "/?token=secret-token", host="evil.example")
    assert foreign.status == 403


def test_each_server_makes_its_own_token(tmp_path, watched):
    with serving([tmp_path], with_token=True) as one, serving([tmp_path], with_token=True) as two:
        assert one.token != two.token
        assert min(len(one.token), len(two.token)) >= 20
    with serving([tmp_path]) as open_to_all:
        assert open_to_all.token == ""


def test_only_this_machine_is_listened_to(server):
    assert server.server_address[0] == "127.0.0.1"


def test_rubbish_does_not_end_it(server):
    for rubbish in (
        b"\x00\xff\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection:
            connection.sendall(rubbish)
    assert ask(server)[0].status == 200


# --- stores that cannot be read


def test_a_store_that_is_damaged_leaves_the_last_page_standing(server, watched):
    path = watched.folders[0] / "recollect.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * 5000)
    assert not watched.refresh()
    answer, body = ask(server, "/update")
    assert "damaged" in answer.headers["X-Problem"]
    assert b"2 planned = 1 done" in body
    path.write_bytes(whole)
    watched.refresh()
    assert "X-Problem" not in ask(server, "/update")[0].headers


def test_a_store_that_is_held_is_waited_for(server, watched, monkeypatch):
    monkeypatch.setattr("recollect.store.reading.connection.PATIENCE_S", 0.05)
    monkeypatch.setattr("recollect.store.reading.connection.sqlite3.connect", quick_connect)
    path = watched.folders[0] / "recollect.db"
    path.touch()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    os.utime(path)
    assert not watched.refresh()
    assert "held by another process" in ask(server, "/update")[0].headers["X-Problem"]
    holder.execute("ROLLBACK")
    holder.close()
    watched.refresh()
    assert watched.problem == ""


real_connect = sqlite3.connect


def quick_connect(*arguments, **options):
    return real_connect(*arguments, **options | {"timeout": 0.05})


def test_a_store_that_becomes_unreadable_is_waited_for(tmp_path, watched):
    path = tmp_path / "recollect.db"
    before = path.read_bytes()
    path.write_bytes(b"")
    assert not watched.refresh()
    assert "no results in" in watched.problem
    path.write_bytes(before)
    assert watched.refresh() or not watched.problem
    assert b"2 planned" in watched.shown.update


def test_a_page_that_cannot_be_drawn_does_not_end_it(server, watched, monkeypatch):
    def fail(folders):
        raise KeyError("nothing like it\nbefore \N{SNOWMAN}")

    path = watched.folders[0] / "recollect.db"
    before = path.stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr(page_server, "gather", fail)
        os.utime(path)
        assert not watched.refresh()
    answer, _ = ask(server, "/update")
    assert answer.headers["X-Problem"] == "KeyError: 'nothing like it\\nbefore ?'"
    os.utime(path, ns=(before, before))
    watched.refresh()
    assert watched.problem == "", "the same files again, but another verdict"


# --- starting and ending


def test_no_store_and_no_port_are_refused(tmp_path, watched):
    with pytest.raises(SpecError, match="no results in"):
        WatchedFolders([tmp_path / "nothing"])
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "recollect.db").touch()
    with pytest.raises(SpecError, match="no results in"):
        WatchedFolders([tmp_path / "empty"])
    (tmp_path / "empty" / "recollect.db").write_bytes(b"no database " * 999)
    with pytest.raises(StoreError, match=r"export .*--salvage"):
        WatchedFolders([tmp_path / "empty"])
    with (
        answering(watched) as server,
        pytest.raises(SpecError, match=r"--port \d+: cannot be used .*--port 0 takes any"),
    ):
        PageServer(watched, server.server_port)


def test_a_folder_of_folders_is_all_of_them_also_those_that_come_later(tmp_path):
    make_store(tmp_path / "a", [make_row()])
    watched = WatchedFolders([tmp_path])
    assert watched.refresh()
    assert not watched.refresh()
    make_store(tmp_path / "b", [make_row("mamba")])
    assert watched.refresh()
    assert b"2 done" in watched.shown.update
    with Store.open(tmp_path / "b") as store:
        plan(store, [make_row("hyena", score=None, status="todo")])
    assert watched.refresh()


def test_it_keeps_itself_fresh(tmp_path, monkeypatch):
    monkeypatch.setattr(page_server, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(page_server, "REST", 0.0)
    make_store(tmp_path, [make_row(), make_row("mamba", score=None, status="todo")])
    with serving([tmp_path]) as server:
        assert b"1 done" in server.watched.shown.update
        news = threading.Event()
        monkeypatch.setattr(
            page_server, "_draw", lambda found, show=page_server._draw: (show(found), news.set())[0]
        )
        with Store.open(tmp_path) as store:
            finish(store, [make_row("mamba", score=0.5)])
        assert news.wait(120)


@pytest.fixture
def _interrupts_arrive():
    """A process inherits that a signal is ignored,
    as it is for jobs in the background of a shell script.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupts_arrive")
def test_the_command_serves_until_it_is_interrupted(tmp_path: Path):
    make_store(tmp_path, [make_row()])
    command = [sys.executable, "-m", "recollect", "watch", str(tmp_path), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:")
        port = int(line.split(":")[2].split("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("GET", "/update")
        assert b"1 planned = 1 done" in connection.getresponse().read()
        connection.close()
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, errors) == (130, "")
