"""containercheck images: which images the cases need, how a registry is asked, and the piece of the site file."""

from __future__ import annotations

import base64
import http.server
import json
import os
import re
import threading
from dataclasses import replace
from types import SimpleNamespace

import made
import pytest
from conftest import write_program
from containercheck.check.build import BuiltCheck
from containercheck.command import images
from containercheck.command.images import Image
from containercheck.job import contract
from containercheck.job.contract import RECIPES
from containercheck.results import formatting
from containercheck.site import node_commands
from containercheck.site.sites import Site
from containercheck.software import registry
from containercheck.software.provision import Provision
from containercheck.software.registry import RegistryError
from reframe.core.exceptions import ReframeError

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
KEY = "E4B98F6EA93DE537FB6415C1A0BC05D6A5A7E793"


@pytest.fixture(autouse=True)
def speaks():
    """Let messages begin with the command's name."""
    formatting.speak_as("images")


@pytest.fixture
def of_recipe(tmp_path, monkeypatch):
    """Make the need of an image of a recipe; all caches are empty."""
    for name in (contract.CACHED_ONLY, contract.CACHE_OWNERS):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    parts = {"recipes": str(RECIPES), "images": str(tmp_path), "jars": str(tmp_path), "runtime": "apptainer"}
    parts.update({"architecture": "x86_64", "release": "bookworm", "family": "openmpi"})

    def program(name="pingpong", link="image.sif", **facts):
        return ["image", json.dumps({**parts, "name": name, "link": link, **facts})]

    return program


def needed(*programs, address="oras://host/checks", key=None):
    """Return the images of a case that reports these programs."""
    reported = {"programs": [*programs], "registry": address, "key": key}
    return images.needed(made.cases([made.case(provenance={contract.IMAGES: reported})]))


def test_an_image_of_several_cases_is_needed_once(of_recipe):
    reported = {"programs": [of_recipe()], "registry": None, "key": None}
    provenance = {contract.IMAGES: reported}
    cases = [made.case(name, nodes=nodes, provenance=provenance) for name in ("HPCC", "HPL") for nodes in (1, 2)]
    (image,) = images.needed(made.cases([*cases, made.case("HPCC", "bare")]))
    assert (image.name, image.partition, image.target, image.facts) == ("pingpong", "compute", "", {})


def test_an_image_that_no_cache_has_is_known_by_its_key(of_recipe):
    (image,) = needed(of_recipe())
    assert image.key.startswith("bookworm-x86_64-") and len(image.key) == len("bookworm-x86_64-") + 12
    assert (image.target, image.tag, image.facts) == ("oras://host/checks/pingpong", image.key, {})
    # With a signature it is another image.
    (signed,) = needed(of_recipe(), key=KEY)
    assert (signed.target, signed.tag) == (image.target, f"{image.key}-a5a7e793")


def test_an_image_that_the_site_names_is_listed_by_its_digest(tmp_path, of_recipe):
    parts = {"reference": f"oras://host/checks/hpcc@{DIGEST}", "directory": str(tmp_path), "runtime": "apptainer"}
    (image,) = needed(["--cache-owners=hpc,@staff", "pull", json.dumps({**parts, "link": "image.sif"})])
    assert (image.name, image.tag, image.key) == ("oras://host/checks/hpcc", DIGEST, "0123456789ab")
    assert os.environ[contract.CACHE_OWNERS] == "hpc,@staff"
    assert not image.runtime


class Skipped(Exception):
    pass


def reported(action, *kinds):
    """Return the images that a check reports whose build step has these programs, and whether it is then skipped."""
    here = Site("here:p", True, "x86_64", 4, 0, image_registry="oras://host", image_key=KEY)
    build = (*(node_commands.in_build(here, kind, link="a") for kind in kinds), "module load apptainer")

    def skip(reason):
        raise Skipped(reason)

    check = SimpleNamespace(images_only=action, site=here, skip_because=skip)
    try:
        BuiltCheck._report_images(check, Provision(build=build))
    except Skipped:
        return check.provenance[contract.IMAGES], True
    return check.provenance[contract.IMAGES], False


def test_a_check_reports_its_images_and_builds_them_only_if_it_is_to():
    images_of, is_skipped = reported("list", "venv", "image", "pull")
    assert is_skipped
    assert images_of["programs"] == [("image", '{"link": "a"}'), ("pull", '{"link": "a"}')]
    assert (images_of["registry"], images_of["key"]) == ("oras://host", KEY)
    assert reported("build", "image") == (reported("list", "image")[0], False)
    # A bare case builds nothing; and what is converted cannot be pulled again.
    assert reported("build", "venv")[1]
    assert reported("build", "image", "convert")[0]["registry"] is None
    with pytest.raises(ReframeError, match="images_only is 'buid', and must be one of list, build"):
        reported("buid", "image")


def pushed(*found, monkeypatch, tmp_path):
    """Push images that are in the cache; return the exit status."""
    monkeypatch.setattr(registry, "push", lambda path, runtime, target, tag, key: f"{target}@{DIGEST}")
    return images._push([replace(image, facts={"path": str(tmp_path / "a.sif")}) for image in found])


def test_the_piece_of_the_site_file_names_only_images_that_it_can(of_recipe, monkeypatch, tmp_path, capsys):
    of_side, several = of_recipe("gromacs", "image-new.sif"), (of_recipe("hpcc"), of_recipe("hpcc", release="trixie"))
    found = needed(of_recipe(), of_side, *several)
    assert pushed(*found, monkeypatch=monkeypatch, tmp_path=tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:3] if " is not pushed: " in line] == ["gromacs", "hpcc", "hpcc"]
    assert re.fullmatch(r"images: pingpong bookworm-x86_64-\w+ is in the registry", lines[3])
    assert lines[5] == "extras of the partition compute in the site file, for 'containercheck':"
    assert json.loads("".join(lines[6:])) == {"images": {"pingpong": f"oras://host/checks/pingpong@{DIGEST}"}}


def test_a_site_without_a_registry_and_a_registry_that_refuses_are_errors(of_recipe, monkeypatch, tmp_path, capsys):
    assert pushed(*needed(of_recipe(), address=None), monkeypatch=monkeypatch, tmp_path=tmp_path) == 1
    said = "images: error: nothing is pushed: name the registry in the site's extras, image_registry"
    assert capsys.readouterr().out.splitlines()[1:] == [said]

    def refuse(*_):
        raise RegistryError("the registry host refuses pingpong: 403 Forbidden")

    monkeypatch.setattr(registry, "push", refuse)
    (image,) = needed(of_recipe())
    assert images._push([replace(image, facts={"path": "/a.sif"})]) == 1
    assert capsys.readouterr().out == "images: error: pingpong: the registry host refuses pingpong: 403 Forbidden\n"


def test_the_list_says_where_each_image_is_and_asks_a_dead_registry_once(monkeypatch, capsys):
    facts = {"sha256": DIGEST[7:], "bytes": 97 << 20}
    needed = [
        Image("compute", "hpcc", "bookworm-x86_64-1", facts, "oras://host/hpcc"),
        Image("compute", "hpl", "bookworm-x86_64-2", target="oras://host/hpl"),
        Image("compute", "/a.sif", facts={"sha256": DIGEST[7:], "bytes": None}),
    ]
    monkeypatch.setattr(registry, "digest_of", lambda target, tag: DIGEST if target.endswith("hpcc") else None)
    assert images._list(needed) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["hpcc", "compute", "bookworm-x86_64-1", "0123456789ab", "97", "MiB", "yes", "0123456789ab"],
        ["hpl", "compute", "bookworm-x86_64-2", "-", "-", "no", "no"],
        ["/a.sif", "compute", "0123456789ab", "-", "yes", "-"],
    ]
    asked = []

    def dead(target, tag):
        asked.append(target)
        raise RegistryError("the registry host does not answer: timed out")

    monkeypatch.setattr(registry, "digest_of", dead)
    assert images._list(needed) == 2
    assert asked == ["oras://host/hpcc"]
    assert capsys.readouterr().out.endswith("\nimages: error: the registry host does not answer: timed out\n")


def test_the_bill_of_materials_has_each_package_with_its_version():
    listed = "debian\nlibc6 2.36-9+deb12u13 amd64\nhpcc 1.5.0-3 amd64\n"
    bill = registry.bill_of_materials("hpcc", "bookworm-1", listed)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert bill["metadata"]["component"] == {"type": "container", "name": "hpcc", "version": "bookworm-1"}
    named = ("libc6@2.36-9%2Bdeb12u13", "hpcc@1.5.0-3")
    assert [each["purl"] for each in bill["components"]] == [f"pkg:deb/debian/{each}?arch=amd64" for each in named]


def test_a_key_is_found_by_its_fingerprint_and_a_missing_one_is_one_line(tmp_path):
    runtime = tmp_path / "apptainer"
    listed = f"Private key listing (/k):\n\n0)  User:   a\n    Fingerprint:    {'0' * 40}\n1)  User:   ours (x)\n"
    write_program(runtime, f"cat <<'END'\n{listed}    Creation time:  2026\n    Fingerprint:    {KEY}\nEND")
    assert registry._secret_key(str(runtime), KEY.lower()) == "1"
    with pytest.raises(RegistryError, match=f"^no key: .*apptainer has no secret key {'1' * 40}: .* key import FILE$"):
        registry._secret_key(str(runtime), "1" * 40)


class Registry(http.server.BaseHTTPRequestHandler):
    """A registry whose token server gives a token to one user."""

    user = f"Basic {base64.b64encode(b'me:secret').decode()}"

    def do_HEAD(self):
        known = self.headers.get("Authorization") == "Bearer a token"
        self.send_response((200 if self.path.endswith("/1") else 404) if known else 401)
        address = f"http://{self.headers['Host']}"
        self.send_header("WWW-Authenticate", f'Bearer realm="{address}/token",service="s",scope="repository:a:pull"')
        self.send_header("Docker-Content-Digest", DIGEST)
        self.end_headers()

    def do_GET(self):
        is_user = self.headers.get("Authorization") == self.user and "scope=repository%3Aa%3Apull" in self.path
        self.send_response(200 if is_user else 401)
        self.end_headers()
        self.wfile.write(b'{"token": "a token"}')

    def log_message(self, *_):
        pass


def test_a_registry_is_asked_with_the_users_own_credentials(tmp_path, monkeypatch):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"127.0.0.1:{server.server_address[1]}"
    for name, value in (("APPTAINER_NOHTTPS", "1"), ("no_proxy", "127.0.0.1"), ("HOME", str(tmp_path))):
        monkeypatch.setenv(name, value)
    refused = f"the registry {host} refuses a/hpcc: 401 Unauthorized: apptainer registry login oras://{host}"
    with pytest.raises(RegistryError, match=f"^{refused}$"):
        registry.digest_of(f"oras://{host}/a/hpcc", "1")
    kept = tmp_path / ".apptainer" / "docker-config.json"
    kept.parent.mkdir()
    kept.write_text(json.dumps({"auths": {host: {"auth": Registry.user.partition(" ")[2]}}}))
    assert registry.digest_of(f"oras://{host}/a/hpcc", "1") == DIGEST
    assert registry.digest_of(f"oras://{host}/a/hpcc", "2") is None
    server.shutdown()
    server.server_close()
    with pytest.raises(RegistryError, match=f"^the registry {host} does not answer: .*Connection refused$"):
        registry.digest_of(f"oras://{host}/a/hpcc", "1")
