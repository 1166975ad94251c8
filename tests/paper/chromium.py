"""A headless Chromium that a test drives through its DevTools protocol, over a pair of pipes: no port, no package."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECONDS = 300.0
"""Timeout of an answer, long enough for a busy machine."""


class Chromium:
    """A page in a new browser; `events` has its console messages, requests and errors."""

    def __init__(self, profile: Path):
        assert PROGRAM is not None
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]
        # The browser reads from descriptor 3 and writes to 4. A shell redirects them: a `preexec_fn` between fork and
        # exec is unsafe with JAX's threads.
        pipes = f'exec "$@" 3</dev/fd/{commands} 4>/dev/fd/{answers}'
        self._process = subprocess.Popen(
            ["sh", "-c", pipes, "sh", PROGRAM, *options, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._unread = b""
        self._count = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        (target,) = [t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._session = None
            self.send("Browser.close")
            self._process.wait(timeout=10)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        finally:
            os.close(self._write)
            os.close(self._read)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for the answer."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def open(self, address: str) -> None:
        """Open a page, and wait until it and its scripts are loaded."""
        self.events.clear()
        self.send("Page.navigate", url=address)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next()

    def run(self, script: str) -> Any:
        """Evaluate a JavaScript expression in the page; promises are awaited."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_until(self, condition: str | Callable[[], Any]) -> None:
        """Wait until a JavaScript expression is true in the page, or a function of its events."""
        end = time.monotonic() + SECONDS
        while not (self.run(condition) if isinstance(condition, str) else condition()):
            if time.monotonic() > end:
                raise TimeoutError(f"never true within {SECONDS:g} s: {condition}")
            self.run("new Promise((done) => setTimeout(done, 5))")  # reads events, and gives the page time to work

    def set_window(self, width: int = 1280, height: int = 900, theme: str = "light") -> None:
        """Set the size of the window and the color scheme."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def picture(self) -> bytes:
        """A screenshot of the window as PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot")["data"])

    def _next(self) -> dict[str, Any]:
        """Read the next message; events are also stored."""
        end = time.monotonic() + SECONDS
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            read = os.read(self._read, 1 << 20) if ready else b""
            if not read:
                raise TimeoutError("Chromium did not answer")
            self._unread += read
        message, _, self._unread = self._unread.partition(b"\0")
        content: dict[str, Any] = json.loads(message)
        if "method" in content:
            self.events.append(content)
        return content
