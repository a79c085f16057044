"""containercheck images: which images the cases need, how a registry is asked, and the piece of the site file."""

from __future__ import annotations

import base64
import http.server
import json
import threading

import made
import pytest
from conftest import write_program
from containercheck.command import images
from containercheck.command.images import Image, Need
from containercheck.job import contract
from containercheck.job.project import RECIPES
from containercheck.results import formatting
from containercheck.software import registry
from containercheck.software.registry import RegistryError

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
KEY = "E4B98F6EA93DE537FB6415C1A0BC05D6A5A7E793"
EXTRAS = {"image_registry": "oras://host/checks"}


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

    def need(name="pingpong", link="image.sif", is_converted=False, **facts):
        return Need("compute", "image", json.dumps({**parts, "name": name, "link": link, **facts}), is_converted)

    return need


def case(application, *programs, **facts):
    return made.case(application, provenance={contract.IMAGES: [list(program) for program in programs]}, **facts)


def test_an_image_of_several_cases_is_needed_once():
    cases = made.cases(
        [
            case("HPCC", ("image", "{1}"), nodes=1),
            case("HPCC", ("image", "{1}"), nodes=2),
            case("HPL", ("image", "{1}")),
            case("IMB", ("image", "{2}"), ("convert", "{}")),
            case("StartUp"),
        ]
    )
    needs = images.needs(cases)
    partition = cases[0].partition
    assert needs == {
        Need(partition, "image", "{1}", False): ["HPCC", "HPL"],
        Need(partition, "image", "{2}", True): ["IMB"],
    }


def test_an_image_that_no_cache_has_is_known_by_its_key(of_recipe):
    image = images.image_of(of_recipe(), ["PingPong"], {})
    assert image.key.startswith("bookworm-x86_64-") and len(image.key) == len("bookworm-x86_64-") + 12
    assert (image.name, image.target, image.facts, image.obstacle) == ("pingpong", "", {}, "")
    # With a signature it is another image.
    signed = images.image_of(of_recipe(), ["PingPong"], {**EXTRAS, "image_key": KEY})
    assert (signed.target, signed.tag) == ("oras://host/checks/pingpong", f"{image.key}-a5a7e793")


@pytest.mark.parametrize(
    ("facts", "obstacle"),
    [
        ({"link": "image-new.sif"}, "it is for one of several compared sides"),
        ({"is_converted": True}, "it is converted"),
        ({}, ""),
    ],
)
def test_only_an_image_that_a_site_file_can_name_is_pushed(of_recipe, capsys, facts, obstacle):
    image = images.image_of(of_recipe(**facts), ["PingPong"], EXTRAS)
    assert image.obstacle == obstacle
    if obstacle:
        assert images._push([image], {"compute": EXTRAS}) == 0
        assert capsys.readouterr().out == f"images: pingpong (PingPong) is not pushed: {obstacle}\n"


def test_an_image_that_the_site_names_is_listed_by_its_digest(of_recipe, tmp_path):
    reference = f"oras://host/checks/hpcc@{DIGEST}"
    parts = {"reference": reference, "directory": str(tmp_path), "runtime": "apptainer", "link": "image.sif"}
    image = images.image_of(Need("compute", "pull", json.dumps(parts), False), ["HPCC"], {})
    assert (image.name, image.tag, image.key) == ("oras://host/checks/hpcc", DIGEST, "0123456789ab")
    assert image.obstacle == "the site names it"


def test_the_piece_names_images_by_recipe_and_by_check_where_a_recipe_has_several():
    def pushed(recipe, *checks, number=1):
        return Image("compute", checks, recipe, reference=f"oras://host/{recipe}@{number}")

    several = [pushed("hpcg", "HPCG"), pushed("hpcg", "HPCGOther", number=2)]
    text = images.site_piece([pushed("hpcc", "HPCC", "HPL"), *several], {"images": {"mine": "/a.sif"}})
    assert json.loads(text)["containercheck"] == {
        "images": {"mine": "/a.sif", "hpcc": "oras://host/hpcc@1"},
        "software": {"HPCG": {"image": "oras://host/hpcg@1"}, "HPCGOther": {"image": "oras://host/hpcg@2"}},
    }


def test_a_site_without_a_registry_and_a_registry_that_refuses_are_one_line_each(of_recipe, monkeypatch, capsys):
    image = images.image_of(of_recipe(), ["PingPong"], {})
    assert images._push([image], {"compute": {}}) == 1
    said = "images: error: compute names no registry: set image_registry in the site's extras\n"
    assert capsys.readouterr().out == said
    there = Image("compute", ("PingPong",), "pingpong", target="oras://host/pingpong", facts={"path": "/a.sif"})

    def refuse(*_):
        raise RegistryError("the registry host refuses pingpong: 403 Forbidden")

    monkeypatch.setattr(registry, "push", refuse)
    assert images._push([there], {"compute": EXTRAS}) == 1
    assert capsys.readouterr().out == "images: error: pingpong: the registry host refuses pingpong: 403 Forbidden\n"


def test_the_list_says_where_each_image_is_and_asks_a_dead_registry_once(monkeypatch, capsys):
    facts = {"sha256": DIGEST[7:], "bytes": 97 << 20}
    needed = [
        Image("compute", ("HPCC",), "hpcc", "bookworm-x86_64-1", target="oras://host/hpcc", facts=facts),
        Image("compute", ("HPL",), "hpl", "bookworm-x86_64-2", target="oras://host/hpl"),
        Image("compute", ("IMB",), "/a.sif", facts={"sha256": DIGEST[7:], "bytes": None}),
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
    bill = registry.bill_of_materials("hpcc", "bookworm-1", {"recipe": "hpcc"}, listed)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert bill["metadata"]["component"]["name"] == "hpcc"
    assert bill["metadata"]["properties"] == [{"name": "containercheck:recipe", "value": "hpcc"}]
    assert [each["purl"] for each in bill["components"]] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=amd64",
        "pkg:deb/debian/hpcc@1.5.0-3?arch=amd64",
    ]


def test_a_key_is_found_by_its_fingerprint_and_a_missing_one_is_one_line(tmp_path):
    runtime = tmp_path / "apptainer"
    listed = f"Private key listing (/k):\n\n0)  User:   a\n    Fingerprint:    {'0' * 40}\n1)  User:   ours (x)\n"
    write_program(runtime, f"cat <<'END'\n{listed}    Creation time:  2026\n    Fingerprint:    {KEY}\nEND")
    assert registry.secret_key(str(runtime), KEY.lower()) == "1"
    with pytest.raises(RegistryError, match=f"^no key: .*apptainer has no secret key {'1' * 40}: .* key import FILE$"):
        registry.secret_key(str(runtime), "1" * 40)


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
