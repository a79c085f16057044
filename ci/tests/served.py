"""A server on this machine that offers the files of a directory."""

from __future__ import annotations

import functools
import hashlib
import http.server
import threading

import pytest


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path):
    """Give a directory, and the address at which a server offers it."""
    directory = tmp_path / "served"
    directory.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(directory)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield directory, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def pin(path):
    return f"#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}"
