"""A headless Chromium, driven through the pipe of its DevTools protocol."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WITHIN_S = 120.0
"""How long a page may take to become what a test waits for."""


class NavigatedError(AssertionError):
    """The page was replaced by another while it evaluated an expression."""


class Browser:
    """A browser with one page.

    Attributes:
        complaints: What went wrong in pages: uncaught exceptions, and messages such as of a content security policy.
    """

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={folder}"]
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The protocol's ends are the file descriptors 3 and 4.
        command = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", CHROMIUM, *flags, "about:blank"]
        self._process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self._read = b""
        self._calls = 0
        self._session: str | None = None
        self._sent = 0
        self._open: dict[str, str] = {}
        self.complaints: list[str] = []

    def __enter__(self) -> Self:
        (target,) = (info for info in self("Target.getTargets")["targetInfos"] if info["type"] == "page")
        self._session = self("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")
        self("Emulation.setScrollbarsHidden", hidden=True)
        self("Emulation.setFocusEmulationEnabled", enabled=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def __call__(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol, and return its result."""
        self._calls += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._calls, "method": method, "params": parameters, **session}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._calls:
            self._note(answer)
        if "navigated" in answer.get("error", {}).get("message", ""):
            raise NavigatedError(f"{method}: {answer['error']}")
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._read:
            data = os.read(self._in, 1 << 16)
            assert data, "the browser ended"
            self._read += data
        message, _, self._read = self._read.partition(b"\0")
        return json.loads(message)

    def _note(self, event: Any) -> None:
        match event.get("method"), event.get("params"):
            case "Runtime.exceptionThrown", {"exceptionDetails": details}:
                self.complaints.append(details.get("exception", {}).get("description") or details["text"])
            case "Log.entryAdded", {"entry": {"level": "error", "text": text}}:
                self.complaints.append(text)
            case "Network.requestWillBeSent", {"requestId": number, "request": {"url": address}}:
                self._sent += 1
                self._open[number] = address
            case "Network.loadingFinished" | "Network.loadingFailed", {"requestId": number}:
                self._open.pop(number, None)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        reply = self("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def until(self, script: str) -> Any:
        """Return the value of an expression as soon as it is true, True for an element; while it throws, it isn't."""
        safe = f"(() => {{ try {{ const it = {script}; return it?.nodeType ? true : it }} catch {{ return null }} }})()"
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            with contextlib.suppress(NavigatedError):
                if value := self.run(safe):
                    return value
            time.sleep(0.1)
        raise AssertionError(f"never became true: {script}")

    def settled(self) -> None:
        """Wait until the page has nothing left to do: no request is open, and its script is idle."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            sent, was_open = self._sent, bool(self._open)
            with contextlib.suppress(NavigatedError):
                self.run("new Promise((done) => requestIdleCallback(() => setTimeout(done), { timeout: 1000 }))")
                if not was_open and not self._open and self._sent == sent:
                    return
        raise AssertionError(f"never answered: {sorted(self._open.values())}")

    def open(self, address: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        """Open a page."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._open.clear()
        self("Page.navigate", url=address)

    def click(self, selector: str) -> None:
        """Click on the first element that a CSS selector finds, as soon as there is one."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.until(element)
        self.run(f"void {element}.click()")

    def press(self, key: str, *, text: str = "") -> None:
        """Press and release a key."""
        code = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}.get(key, 0)
        keys = {"key": key, "windowsVirtualKeyCode": code}
        self("Input.dispatchKeyEvent", type="keyDown", text=text or ("\r" if key == "Enter" else ""), **keys)
        self("Input.dispatchKeyEvent", type="keyUp", **keys)

    @property
    def html(self) -> str:
        """What the page has become."""
        return str(self.run("document.documentElement.outerHTML"))

    def shoot(self, file: Path) -> None:
        """Write a picture of the page as PNG."""
        file.write_bytes(base64.b64decode(self("Page.captureScreenshot", format="png")["data"]))
