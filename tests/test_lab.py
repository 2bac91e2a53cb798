"""`make lab`: the results that it shares with the book, and JupyterLab itself."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import lab
import pytest

from rc_utils.paths import write_atomically

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_the_lab_reads_the_books_results_and_writes_its_own(results):
    write_atomically(results / "records" / "a.json", b"book")
    write_atomically(results / "weights" / "a.safetensors", b"weights")
    assert lab.share_results(results, results / "lab") == 2
    assert lab.share_results(results, results / "lab") == 0
    write_atomically(results / "lab" / "records" / "a.json", b"edited")
    assert (results / "records" / "a.json").read_bytes() == b"book"
    assert lab.share_results(results, results / "lab") == 0  # what was computed in the lab is kept,
    write_atomically(results / "records" / "a.json", b"book again")
    newer = time.time_ns() + 10**9
    os.utime(results / "records" / "a.json", ns=(newer, newer))
    assert lab.share_results(results, results / "lab") == 1  # until the book has something newer
    assert (results / "lab" / "records" / "a.json").read_bytes() == b"book again"


class Server:
    """JupyterLab in a process of its own, as `make lab` starts it, and its interface."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.place = f"127.0.0.1:{free.getsockname()[1]}"
        options = ["--no-browser", f"--ServerApp.port={self.place.partition(':')[2]}", "--ServerApp.port_retries=0"]
        line = [sys.executable, str(ROOT / "book" / "lab.py"), *options]
        environment = os.environ | {"JUPYTER_TOKEN": "test", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(line, env=environment, stderr=subprocess.DEVNULL)

    def ask(self, path, content=None):
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"http://{self.place}{path}", body, {"Authorization": "token test"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def wait(self):
        while self.process.poll() is None:
            try:
                return self.ask("/api/status")
            except urllib.error.URLError:
                time.sleep(0.2)
        pytest.fail("JupyterLab ended before it answered")

    def run(self, kernel, code):
        """What a cell shows, as text."""
        import websocket

        channel = websocket.create_connection(
            f"ws://{self.place}/api/kernels/{kernel}/channels?token=test", timeout=120
        )
        header = {"msg_id": "cell", "msg_type": "execute_request", "username": "", "session": "test", "version": "5.3"}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": {"code": code}, "channel": "shell"}
        channel.send(json.dumps(message))
        while (answer := json.loads(channel.recv()))["msg_type"] != "execute_result":
            assert answer["msg_type"] != "error", answer["content"]
        channel.close()
        return answer["content"]["data"]["text/plain"]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


@pytest.fixture
def server():
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed; `make lab` installs it")
    server = Server()
    yield server
    server.stop()


@pytest.mark.slow
def test_the_lab_opens_page_12_and_its_kernels_keep_results_of_their_own(server, results):
    server.wait()
    settings = server.ask("/lab/api/settings/@jupyterlab/docmanager-extension:plugin")
    assert json.loads(settings["raw"]) == {"autosave": False}
    assert "MyNet" in json.dumps(server.ask(f"/api/contents/{lab.FIRST}")["content"])
    session = {"path": lab.FIRST, "name": "", "type": "notebook", "kernel": {"name": "python3"}}
    kernel = server.ask("/api/sessions", session)["kernel"]["id"]
    place = server.run(kernel, "import sys, rc_utils.checks as c; f'{sys.executable} {c.results_dir()}'")
    assert place == repr(f"{sys.executable} {results / 'lab'}")
