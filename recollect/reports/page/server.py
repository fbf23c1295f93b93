"""The live page: a small local server that shows a sweep while it runs.

The server listens only on 127.0.0.1 and answers only requests whose Host header names this machine.
This refuses a page from elsewhere whose name points here (DNS rebinding). There are two paths, "/"
and "/update"; no path is ever mapped to a file. Other users of the machine can reach the port too,
so with a token the server answers only requests that carry it. If a store cannot be read, the last
page stays up, with a note that gives the reason.
"""

import contextlib
import hashlib
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus, cookies
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from recollect.errors import RecollectError, SpecError
from recollect.reports.inspect.record import FOLDER
from recollect.reports.page import Context
from recollect.reports.page.gather import Evidence, gather
from recollect.reports.page.rendering import add_scripts, render_bare, to_bytes
from recollect.store import Store
from recollect.store.database import FILE
from recollect.store.joining.folders import find_stores

HOST = "127.0.0.1"
LOOK_EVERY_S = 1.0
FIRST_LOOK_S = 10.0
REST = 4.0  # seconds to rest per second of drawing, to leave the machine to the training
HTML, PLAIN = "text/html; charset=utf-8", "text/plain; charset=utf-8"
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class PageVersion:
    """One state of the page: complete, and without the scripts that the browser already has."""

    version: str
    page: bytes
    update: bytes


class WatchedFolders:
    """Folders of results and the newest page about them."""

    def __init__(self, folders: Sequence[Path]):
        for folder in find_stores(folders):  # refuse at the start what every other verb refuses
            Store.open(folder, read_only=True).close()
        self.folders = folders
        self.problem = ""
        self.shown = _draw(Evidence([], {}, Context()))
        self._seen: Any = None
        self.looked = threading.Event()
        self._stop = threading.Event()

    def refresh(self) -> bool:
        """Read the folders again if anything in them has changed. Returns whether there is a new
        page.
        """
        seen = _fingerprint(self.folders)
        if seen == self._seen and not self.problem:
            return False
        try:
            shown = _draw(gather(self.folders))
        except RecollectError as error:
            self.problem = " ".join(str(error).split())
            return False
        except Exception as error:  # keep watching even if the page cannot be drawn
            self.problem = f"{type(error).__name__}: {error}"
            return False
        self._seen, self.problem = seen, ""
        if shown.version == self.shown.version:
            return False
        self.shown = shown
        return True

    def keep_fresh(self) -> None:
        """Refresh the page until `stop`, and rest after each time in proportion to the work."""
        while not self._stop.is_set():
            start = time.monotonic()
            self.refresh()
            self.looked.set()
            self._stop.wait(max(LOOK_EVERY_S, REST * (time.monotonic() - start)))

    def stop(self) -> None:
        self._stop.set()


class PageServer(ThreadingHTTPServer):
    """A server for the page of the watched folders. `port` 0 takes any free port. With an empty
    token, requests need none.
    """

    daemon_threads = True

    def __init__(self, watched: WatchedFolders, port: int, token: str = ""):
        try:
            super().__init__((HOST, port), RequestHandler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SpecError(
                f"--port {port}: cannot be used ({reason}); --port 0 takes any that is free"
            ) from None
        self.watched, self.token = watched, token

    @property
    def address(self) -> str:
        """The URL to open in a browser."""
        return f"http://{HOST}:{self.server_port}/" + (f"?token={self.token}" if self.token else "")

    @property
    def cookie(self) -> str:
        """The name of the cookie that keeps the token. It includes the port, since browsers share
        cookies between ports.
        """
        return f"recollect-{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client that closes the connection is not an error to report."""


class RequestHandler(BaseHTTPRequestHandler):
    """Handles GET and HEAD of two paths, for clients on this machine."""

    server: PageServer
    timeout = 10
    server_version = "recollect"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        token = self.server.token
        watched = self.server.watched
        shown = watched.shown
        problem = "".join(c if " " <= c <= "~" else "?" for c in watched.problem)[:300]
        tag = f'"{shown.version}"'
        if not self._is_ours():
            advice = f"This page is for readers on this machine: open it as {self.server.address}"
            self._answer(HTTPStatus.FORBIDDEN, advice.encode(), Content_Type=PLAIN)
        elif token and not self._has_token(token):
            advice = "Open the address with its token, as `recollect watch --token` printed it."
            self._answer(HTTPStatus.FORBIDDEN, advice.encode(), Content_Type=PLAIN)
        elif path not in ("/", "/update"):
            self._answer(HTTPStatus.NOT_FOUND, b"There are / and /update here.", Content_Type=PLAIN)
        elif path == "/update" and self.headers.get("If-None-Match") == tag:
            self._answer(HTTPStatus.NOT_MODIFIED, b"", ETag=tag, X_Problem=problem)
        else:
            body = shown.page if path == "/" else shown.update
            kept = f"{self.server.cookie}={token}; HttpOnly; SameSite=Strict" if token else ""
            more = {"ETag": tag, "X_Problem": problem, "Set_Cookie": kept}
            self._answer(HTTPStatus.OK, body, Content_Type=HTML, **more)

    do_HEAD = do_GET

    def _refuse(self) -> None:
        advice = b"Only GET and HEAD: this page can be read, not changed."
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, advice, Content_Type=PLAIN, Allow="GET, HEAD")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse

    def _is_ours(self) -> bool:
        hosts = self.headers.get_all("Host") or []
        return len(hosts) == 1 and hosts[0].lower() in {
            f"{name}:{self.server.server_port}" for name in (HOST, "localhost")
        }

    def _has_token(self, token: str) -> bool:
        """Whether the URL or the cookie carries the token."""
        try:
            given = parse_qs(urlsplit(self.path).query).get("token", [])
            kept = cookies.SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except (ValueError, cookies.CookieError):
            return False
        given += [kept.value] if kept else []
        return any(secrets.compare_digest(text.encode(), token.encode()) for text in given)

    def _answer(self, status: HTTPStatus, body: bytes, **more: str) -> None:
        self.send_response(status)
        for name, value in (
            HEADERS | {name.replace("_", "-"): value for name, value in more.items() if value}
        ).items():
            self.send_header(name, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Do nothing: only the command line prints."""


@contextlib.contextmanager
def serving(
    folders: Sequence[Path], port: int = 0, with_token: bool = False
) -> Iterator[PageServer]:
    """A server that is ready to answer, with the page already drawn unless the store is slow.

    With `with_token` a new token is made, and requests need it. The caller calls `serve_forever`.
    """
    watched = WatchedFolders(folders)
    with PageServer(watched, port, secrets.token_urlsafe(16) if with_token else "") as server:
        drawing = threading.Thread(target=watched.keep_fresh, daemon=True)
        drawing.start()
        # A store that another process holds may take longer. Then the page appears later.
        watched.looked.wait(FIRST_LOOK_S)
        try:
            yield server
        finally:
            watched.stop()
            drawing.join(timeout=5)


def _draw(found: Evidence) -> PageVersion:
    page = render_bare(found.rows, found.curves, found.context, is_live=True)
    update = to_bytes(page)
    return PageVersion(hashlib.sha256(update).hexdigest()[:16], to_bytes(add_scripts(page)), update)


def _fingerprint(folders: Sequence[Path]) -> list[tuple[str, int, int]]:
    """Names, times and sizes of the files, which can be read without opening them."""
    stores = find_stores(folders)
    paths = [folder / name for folder in stores for name in (FILE, f"{FILE}-wal")]
    paths += [path for folder in stores for path in sorted((folder / FOLDER).glob("*.json"))]
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            stat = path.stat()
            found.append((str(path), stat.st_mtime_ns, stat.st_size))
    return found
