"""A real browser for the tests of the page:

Debian's chromium, driven by Playwright; left out where there is none.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install -e '.[dev]'"
)
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no browser here: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # In a container there is neither a sandbox for root nor much shared memory.
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


class Desk:
    """Opens pages, each in its own window; notes what they complain of and whom they ask."""

    def __init__(self, browser: Any, folder: Path):
        self.browser, self.folder = browser, folder
        self.contexts: list[Any] = []
        self.complaints: list[str] = []
        self.foreign: list[str] = []

    def open(
        self,
        page: str,
        width: int = 1280,
        is_phone: bool = False,
        may_complain: bool = False,
        **options: Any,
    ) -> Any:
        """A page, given as HTML or as an address, in a window `width` wide."""
        address = page
        if not page.startswith("http://"):
            path = self.folder / f"page{len(self.contexts)}.html"
            path.write_bytes(page.encode("utf-8", errors="replace"))
            address = path.as_uri()
        size = {"width": width, "height": 900}
        context = self.browser.new_context(
            viewport=size, has_touch=is_phone, is_mobile=is_phone, **options
        )
        self.contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(120_000)
        if not may_complain:
            tab.on(
                "console",
                lambda message: (
                    self._hear(message.text) if message.type in ("error", "warning") else None
                ),
            )
        tab.on("pageerror", lambda error: self._hear(str(error)))
        tab.on("dialog", lambda dialog: (self._hear(f"dialog: {dialog.message}"), dialog.dismiss()))
        tab.route("**/*", lambda route: self._guard(route, address))
        tab.goto(address)
        return tab

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        assert self.complaints == []
        assert self.foreign == []

    def _hear(self, text: str) -> None:
        self.complaints.append(text)

    def _guard(self, route: Any, address: str) -> None:
        if route.request.url.startswith((address, "data:", "blob:")):
            route.continue_()
        else:
            self.foreign.append(route.request.url)
            route.abort()


@pytest.fixture
def desk(browser: Any, tmp_path: Path) -> Iterator[Desk]:
    """At the end nothing may have complained, or asked for anything from elsewhere."""
    desk = Desk(browser, tmp_path)
    yield desk
    desk.close()


@pytest.fixture(scope="module")
def shared_desk(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The same for pages that several tests look at: to load one takes a second or more."""
    desk = Desk(browser, tmp_path_factory.mktemp("desk"))
    yield desk
    desk.close()
