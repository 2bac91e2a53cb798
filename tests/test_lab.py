"""`make lab`: the results that it shares with the book, and JupyterLab itself with an edited page 12."""

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

from rc_utils.checks import write_atomically

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
        """What a cell shows, as texts; fails with the cell's error."""
        import websocket

        address = f"ws://{self.place}/api/kernels/{kernel}/channels?token=test"
        channel = websocket.create_connection(address, timeout=120)
        header = {"msg_id": "cell", "msg_type": "execute_request", "username": "", "session": "test", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        channel.send(json.dumps(message))
        texts = []
        while True:
            answer = json.loads(channel.recv())
            kind, content = answer["msg_type"], answer["content"]
            if answer["parent_header"].get("msg_id") != "cell":
                continue
            assert kind != "error", "\n".join(content["traceback"])
            texts += list(content.get("data", {}).values())
            if kind == "status" and content["execution_state"] == "idle":
                channel.close()
                return texts

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
def test_an_edited_page_12_runs_in_the_lab_and_leaves_the_book_alone(server, results):
    server.wait()
    settings = server.ask("/lab/api/settings/@jupyterlab/docmanager-extension:plugin")
    assert json.loads(settings["raw"]) == {"autosave": False}
    page = server.ask(f"/api/contents/{lab.FIRST}")["content"]
    cells = [cell["source"] for cell in page["cells"] if cell["cell_type"] == "code"]
    edits = {
        "MyNet": "Edited",
        "nn.BatchNorm2d(after), ": "",
        "shapes-quick": "shapes-tiny",
        "epochs = 0": "epochs = 1",
    }
    for old, new in edits.items():
        cells = [source.replace(old, new) for source in cells]
    session = {"path": lab.FIRST, "name": "", "type": "notebook", "kernel": {"name": "python3"}}
    kernel = server.ask("/api/sessions", session)["kernel"]["id"]
    shown = [server.run(kernel, source) for source in cells]
    assert any("Edited (yours): " in text for text in shown[-1])
    assert len(list((results / "lab" / "records").glob("*.json"))) == 8  # the campaign, which the page had to train
    assert not (results / "records").exists()
    assert sys.executable in server.run(kernel, "__import__('sys').executable")[0]
