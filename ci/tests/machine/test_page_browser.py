"""The page in headless Chromium: what axe-core finds, how wide it is, how fast it loads."""

from __future__ import annotations

import hashlib
import html
import json
import re
import shutil
import subprocess
import tarfile

import pytest
from containercheck.history.series import series
from test_page import moved, read, sessions

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-headless-shell", "google-chrome"))), "")
#: Deque's, which the guidelines' authors refer to: https://github.com/dequelabs/axe-core
AXE = "axe-core@4.14.1"
AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
#: Pixels.
PHONE = 390
DARK = "--blink-settings=preferredColorScheme=0"
pytestmark = [pytest.mark.long, pytest.mark.skipif(not CHROMIUM, reason="no chromium on the PATH")]


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """Fetch axe-core from the machine's own npm registry."""
    if not shutil.which("npm"):
        pytest.skip("no npm on the PATH, which axe-core comes with")
    place = tmp_path_factory.mktemp("axe")
    subprocess.run(["npm", "pack", "--silent", AXE], cwd=place, check=True, capture_output=True)
    with tarfile.open(next(place.glob("*.tgz"))) as archive:
        script = archive.extractfile("package/axe.min.js").read()
    assert hashlib.sha256(script).hexdigest() == AXE_SHA256
    return script.decode()


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """Write the page of five nights with everything that a page can have."""
    from containercheck.report.page import contents

    path = tmp_path_factory.mktemp("page") / "night.html"
    found = read(sessions())
    contents.write(found, series(found), [moved(found)], path, ["the last session was cut in half"])
    return path


def told(path, script, *options, width=0):
    """Return what a script says of a page: what it hands to say(), as JSON.

    :param width: of a frame that the page is shown in; Chromium's own window is 500 pixels wide at least. 0 for none.
    """
    say = "const say = what => parent.postMessage(JSON.stringify(what), '*');"
    hear = "<script>onmessage = one => document.documentElement.dataset.said = one.data;</script>"
    asked = path.with_name("asked.html")
    scripts = f"{'' if width else hear}<script>{say}{script}</script></body>"
    asked.write_text(path.read_text().replace("</body>", scripts))
    if width:
        frame = path.with_name("frame.html")
        frame.write_text(f"<html>{hear}<iframe src='asked.html' width='{width}' height='844'></iframe></html>")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *options, "--dump-dom"]
    result = subprocess.run(
        [*command, (frame if width else asked).as_uri()], capture_output=True, text=True, timeout=300, check=True
    )
    return json.loads(html.unescape(re.search(r'data-said="([^"]*)"', result.stdout)[1]))


def violations(path, axe, *options, width=0):
    """Return what axe-core finds when everything is unfolded, how much it looked at, and whether it was in the dark."""
    check = """
        document.querySelectorAll('details').forEach(one => one.open = true);
        axe.run().then(found => say([
            found.violations.map(one => [one.id, one.nodes.length, one.nodes[0].html, one.nodes[0].failureSummary]),
            found.passes.length, matchMedia('(prefers-color-scheme: dark)').matches, innerWidth]));"""
    return told(path, axe + check, "--virtual-time-budget=100000", *options, width=width)


@pytest.mark.parametrize(("options", "width"), [([], 0), ([DARK], 0), ([], PHONE)], ids=["light", "dark", "phone"])
def test_axe_finds_nothing(night, axe, options, width):
    found, passed, dark, inner = violations(night, axe, *options, width=width)
    assert found == []
    assert passed > 25
    assert ": overhead in %" in night.read_text()
    assert dark == (DARK in options)
    assert inner == width or not width


def test_axe_finds_what_is_planted(night, axe):
    planted = night.with_name("planted.html")
    faults = "<p style='color: #999'>pale</p><table><tr><th></th></tr></table><svg role='img'></svg></main>"
    planted.write_text(night.read_text().replace("</main>", faults))
    assert {"color-contrast", "empty-table-header", "svg-img-alt"} <= {
        violation[0] for violation in violations(planted, axe)[0]
    }


def test_nothing_is_wider_than_a_phone(night):
    everything = "document.querySelectorAll('details').forEach(one => one.open = true);"
    width, inner = told(night, f"{everything} say([document.documentElement.scrollWidth, innerWidth]);", width=PHONE)
    assert (width, inner) == (PHONE, PHONE)
