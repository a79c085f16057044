"""Push images to a registry with Apptainer, with a bill of materials and a signature, and ask it for their digests.

The digest of an image in a registry is that of its manifest (OCI distribution specification, "Checking if content
exists in the registry"). Apptainer does not print it, so the registry is asked, with the credentials that
``apptainer registry login`` keeps.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from containercheck.job import texts
from containercheck.job.build import image_files

#: Scheme of addresses, and media type of the manifests of image files.
ORAS, MANIFEST = "oras://", "application/vnd.oci.image.manifest.v1+json"
#: Seconds for an answer of a registry, and for a command of the runtime.
PATIENCE, LIMIT = 20.0, 3600.0
#: Variables that make Apptainer and Singularity speak HTTP to registries.
NO_HTTPS = ("APPTAINER_NOHTTPS", "SINGULARITY_NOHTTPS")
#: Files with credentials for registries; the first one that has them counts.
CREDENTIALS = ("~/.apptainer/docker-config.json", "~/.singularity/docker-config.json", "~/.docker/config.json")
#: Script for a container that prints the distribution, and name, version and architecture of each package.
_PACKAGES = r". /etc/os-release && echo $ID && dpkg-query -W -f '${Package} ${Version} ${Architecture}\n'"
#: Options that add a bill of materials to the first group of an image's parts, which is signed.
_AS_BILL = ("--datatype", "9", "--sbomformat", "cyclonedx-json", "--groupid", "1")


class RegistryError(Exception):
    """Report an image that a registry does not have or take; the message has the reason, in one line."""


def digest_of(target: str, tag: str) -> str | None:
    """Return the digest of an image, such as ``sha256:0d73...``; None if the registry does not have it.

    :param target: address of the image without a tag, ``oras://HOST/PATH``.
    :param tag: its tag or digest.
    :raises RegistryError: the registry refuses, or does not answer.
    """
    host, _, path = target[len(ORAS) :].partition("/")
    scheme = "http" if any(map(os.environ.get, NO_HTTPS)) else "https"
    request = Request(f"{scheme}://{host}/v2/{path}/manifests/{tag}", method="HEAD", headers={"Accept": MANIFEST})
    try:
        try:
            answer = urlopen(request, timeout=PATIENCE)
        except HTTPError as error:
            if error.code != 401:
                raise
            # A redirection to another host gets no credentials.
            challenge = error.headers.get("WWW-Authenticate", "")
            request.add_unredirected_header("Authorization", _authorization(host, challenge, scheme))
            answer = urlopen(request, timeout=PATIENCE)
        with answer:
            return re.fullmatch(r"sha256:[0-9a-f]{64}", answer.headers["Docker-Content-Digest"])[0]  # type: ignore
    except HTTPError as error:
        if error.code == 404:
            return None
        login = f": apptainer registry login {ORAS}{host}" if error.code in (401, 403) else ""
        reason = f"refuses {path}: {error.code} {error.reason}{login}"
    except OSError as error:
        reason = f"does not answer: {getattr(error, 'reason', error)}"
    except (ValueError, LookupError, TypeError):
        reason = "answers without a digest or a token"
    raise RegistryError(texts.sanitized(f"the registry {host} {reason}"))


def _authorization(host: str, challenge: str, scheme: str) -> str:
    """Return the header that a registry asks for: the user's password, or a token that its server gives for that.

    :raises OSError, LookupError, ValueError: there is no token.
    """
    basic = ""
    for name in CREDENTIALS:
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            basic = basic or f"Basic {json.loads(Path(name).expanduser().read_text())['auths'][host]['auth']}"
    if not challenge.lower().startswith("bearer "):
        return basic
    facts = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if not facts["realm"].startswith(f"{scheme}://"):
        raise ValueError("a server without HTTPS gets no password")
    request = Request(f"{facts.pop('realm')}?{urllib.parse.urlencode(facts)}")
    if basic:
        request.add_unredirected_header("Authorization", basic)
    with urlopen(request, timeout=PATIENCE) as answer:
        token = json.load(answer)
    return f"Bearer {token.get('token') or token['access_token']}"


def push(image: Path, runtime: str, target: str, tag: str, key: str | None) -> str:
    """Push a copy of an image with its bill of materials and a signature, unless it is there; return its full name.

    :param runtime: command of Apptainer or Singularity.
    :param target: address of the image without a tag, ``oras://HOST/PATH``.
    :param key: fingerprint of the key that signs it; None for no signature.
    :raises RegistryError: it cannot be signed, or the registry does not take it.
    """
    if not digest_of(target, tag):
        number = _secret_key(runtime, key) if key else ""
        with tempfile.TemporaryDirectory(prefix="containercheck-") as directory:
            # The registry keeps the name of the file as its title.
            copy = Path(directory, f"{target.rpartition('/')[2]}.sif")
            shutil.copy(image, copy)
            _add_bill(copy, runtime, tag)
            if key:
                _output([runtime, "sign", "--keyidx", number, str(copy)], asks=True)
            _output([runtime, "push", "--allow-unsigned", str(copy), f"{target}:{tag}"])
    return f"{target}@{digest_of(target, tag)}"


def _secret_key(runtime: str, fingerprint: str) -> str:
    """Return the number of a key in the keyring of a runtime, for its command ``sign``.

    :raises RegistryError: the keyring does not have its secret part.
    """
    listed = _output([runtime, "key", "list", "--secret"])
    for number, other in re.findall(r"^(\d+)\)(?:.*\n)*?\s*Fingerprint:\s*(\w+)", listed, re.MULTILINE):
        if other.upper() == fingerprint.upper():
            return str(number)
    raise RegistryError(f"no key: {runtime} has no secret key {fingerprint}: {runtime} key import FILE")


def _add_bill(image: Path, runtime: str, version: str) -> None:
    """Add the bill of materials to an image, if dpkg installed its packages and the runtime knows such a part."""
    with contextlib.suppress(RegistryError):
        listed = _output([*image_files.inside(runtime), str(image), "sh", "-c", _PACKAGES])
        bill = image.with_name("sbom.json")
        bill.write_text(json.dumps(bill_of_materials(image.stem, version, listed), indent=1))
        _output([runtime, "sif", "add", str(image), str(bill), *_AS_BILL])


def bill_of_materials(name: str, version: str, listed: str) -> dict[str, Any]:
    """Return the bill of materials of an image, as CycloneDX 1.5.

    :param listed: output of a container: the distribution, then a package in each line.
    """
    distribution, *lines = listed.splitlines()
    components = []
    for package, release, architecture in map(str.split, lines):
        address = f"pkg:deb/{distribution}/{package}@{urllib.parse.quote(release)}?arch={architecture}"
        components.append({"type": "library", "name": package, "version": release, "purl": address})
    image = {"component": {"type": "container", "name": name, "version": version}}
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": image, "components": components}


def _output(words: Sequence[str], asks: bool = False) -> str:
    """Return the output of a command of a runtime.

    :param asks: whether it may ask for the passphrase of a key; its output is shown, and not returned.
    :raises RegistryError: it fails; the message has its last line.
    """
    stdout = None if asks else subprocess.PIPE
    try:
        process = subprocess.run(
            words, stdout=stdout, stderr=subprocess.PIPE, text=True, errors="replace", timeout=LIMIT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RegistryError(f"{' '.join(words[:2])}: {error}") from None
    if process.returncode != 0:
        reason = re.sub(r"\x1b\[[\d;]*[A-Za-z]|^FATAL: *", "", (process.stderr.splitlines() or ["no reason"])[-1])
        raise RegistryError(texts.sanitized(f"{' '.join(words[:2])}: {reason}"))
    return process.stdout or ""
