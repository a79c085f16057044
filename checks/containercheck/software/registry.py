"""Push images to a registry with Apptainer, with a bill of materials and a signature, and ask it for their digests.

The digest of an image in a registry is that of its manifest (OCI distribution specification, "Checking if content
exists in the registry"). Apptainer does not print it, so the registry is asked. The user's credentials are those that
``apptainer registry login`` keeps.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPMessage
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from containercheck.job import texts
from containercheck.job.build import image_files

#: Scheme of addresses, and media type of the manifests of image files.
ORAS, MANIFEST = "oras://", "application/vnd.oci.image.manifest.v1+json"
#: Seconds for an answer of a registry, and for the upload of an image.
PATIENCE, UPLOAD = 20.0, 3600.0
#: Variables that make Apptainer and Singularity speak HTTP to registries.
NO_HTTPS = ("APPTAINER_NOHTTPS", "SINGULARITY_NOHTTPS")
#: Files with credentials for registries, the first one that has them counts: Apptainer's, Singularity's, Docker's.
CREDENTIALS = ("~/.apptainer/docker-config.json", "~/.singularity/docker-config.json", "~/.docker/config.json")
#: Script for a container that prints the distribution, and name, version and architecture of each package.
_PACKAGES = r". /etc/os-release && echo $ID && dpkg-query -W -f '${Package} ${Version} ${Architecture}\n'"


class RegistryError(Exception):
    """Report an image that a registry does not have or take; the message has the reason, in one line."""


@dataclass(frozen=True)
class Pushed:
    """Describe an image in a registry.

    :ivar reference: name with the digest, as a site file names it.
    :ivar packages: number of packages in its bill of materials; None if it was there before.
    """

    reference: str
    packages: int | None = None


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
            request.add_unredirected_header("Authorization", _authorization(host, error.headers, scheme))
            answer = urlopen(request, timeout=PATIENCE)
        with answer:
            digest = answer.headers.get("Docker-Content-Digest", "")
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            raise ValueError("it states no digest")
        return str(digest)
    except HTTPError as error:
        if error.code == 404:
            return None
        login = f": apptainer registry login {ORAS}{host}" if error.code in (401, 403) else ""
        reason = f"the registry {host} refuses {path}: {error.code} {error.reason}{login}"
        raise RegistryError(texts.sanitized(reason)) from None
    except (OSError, ValueError, LookupError) as error:
        reason = f"the registry {host} does not answer: {getattr(error, 'reason', error)}"
        raise RegistryError(texts.sanitized(reason)) from None


def _authorization(host: str, headers: HTTPMessage, scheme: str) -> str:
    """Return the header with which a registry answers that asked for one: a token of its server, or a password.

    :raises OSError, LookupError, ValueError: there is no token.
    """
    basic = next(filter(None, (_credentials(Path(name).expanduser(), host) for name in CREDENTIALS)), "")
    kind, _, text = headers.get("WWW-Authenticate", "").partition(" ")
    if kind.lower() != "bearer":
        return basic
    facts = dict(re.findall(r'(\w+)="([^"]*)"', text))
    query = urllib.parse.urlencode({name: facts[name] for name in ("service", "scope") if name in facts})
    if not facts["realm"].startswith(f"{scheme}://"):
        raise ValueError(f"its server for tokens is {facts['realm']}")
    request = Request(f"{facts['realm']}?{query}")
    if basic:
        request.add_unredirected_header("Authorization", basic)
    with urlopen(request, timeout=PATIENCE) as answer:
        token = json.load(answer)
    return f"Bearer {token.get('token') or token['access_token']}"


def _credentials(path: Path, host: str) -> str:
    """Return the header of a user for a registry, from a file of Docker's format; empty if it has none."""
    try:
        encoded = json.loads(path.read_text())["auths"][host]["auth"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return f"Basic {encoded}" if encoded else ""


def secret_key(runtime: str, fingerprint: str) -> str:
    """Return the number of a key in the keyring of a runtime, for its command ``sign``.

    :raises RegistryError: the keyring does not have its secret part.
    """
    listed = _output([runtime, "key", "list", "--secret"])
    keys = re.findall(r"^(\d+)\)(?:.*\n)*?\s*Fingerprint:\s*(\w+)", listed, re.MULTILINE)
    found = next((number for number, other in keys if other.upper() == fingerprint.upper()), None)
    if found is None:
        raise RegistryError(f"no key: {runtime} has no secret key {fingerprint}: {runtime} key import FILE")
    return found


def push(image: Path, runtime: str, target: str, tag: str, properties: Mapping[str, str], key: str | None) -> Pushed:
    """Push a copy of an image with its bill of materials and a signature, unless the registry has it.

    :param runtime: command of Apptainer or Singularity.
    :param target: address of the image without a tag, ``oras://HOST/PATH``.
    :param properties: further facts for the bill of materials.
    :param key: fingerprint of the key that signs it; None for no signature.
    :raises RegistryError: it cannot be signed, or the registry does not take it.
    """
    found, packages = digest_of(target, tag), None
    if found is None:
        number = secret_key(runtime, key) if key else ""
        with tempfile.TemporaryDirectory(prefix="containercheck-") as directory:
            # The registry keeps the name of the file as its title.
            copy = Path(directory, f"{target.rpartition('/')[2]}.sif")
            shutil.copy(image, copy)
            packages = _add_bill(copy, runtime, tag, properties)
            if key:
                _output([runtime, "sign", "--keyidx", number, str(copy)], asks=True)
            _output([runtime, "push", "--allow-unsigned", str(copy), f"{target}:{tag}"])
        found = digest_of(target, tag)
    if found is None:
        raise RegistryError(f"{target}:{tag} was pushed, and the registry does not have it")
    return Pushed(f"{target}@{found}", packages)


def _add_bill(image: Path, runtime: str, version: str, properties: Mapping[str, str]) -> int:
    """Add the bill of materials to an image, and return the number of its packages; 0 if none is possible.

    It is in the first group of objects, which is signed.
    """
    try:
        listed = _output([*image_files.inside(runtime), str(image), "sh", "-c", _PACKAGES])
        bill = bill_of_materials(image.stem, version, properties, listed)
        path = image.with_name("sbom.json")
        path.write_text(json.dumps(bill, indent=1))
        kind = ["--datatype", "9", "--sbomformat", "cyclonedx-json", "--groupid", "1"]
        _output([runtime, "sif", "add", str(image), str(path), *kind])
    except RegistryError:
        # Another package manager, or a runtime before bills of materials.
        return 0
    return len(bill["components"])


def bill_of_materials(name: str, version: str, properties: Mapping[str, str], listed: str) -> dict[str, Any]:
    """Return the bill of materials of an image, as CycloneDX 1.5.

    :param listed: output of a container: the distribution, then a package in each line.
    """
    distribution, *lines = listed.splitlines()
    packages = [line.split() for line in lines]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "container", "name": name, "version": version},
            "properties": [{"name": f"containercheck:{fact}", "value": value} for fact, value in properties.items()],
        },
        "components": [
            {
                "type": "library",
                "name": package,
                "version": release,
                "purl": f"pkg:deb/{distribution}/{package}@{urllib.parse.quote(release)}?arch={architecture}",
            }
            for package, release, architecture in packages
        ],
    }


def _output(words: Sequence[str], asks: bool = False) -> str:
    """Return the output of a command of a runtime.

    :param asks: whether it may ask for the passphrase of a key; its output is shown, and not returned.
    :raises RegistryError: it fails; the message has its last line.
    """
    streams = {"stdout": None} if asks else {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    try:
        process = subprocess.run(
            words, **streams, stderr=subprocess.PIPE, text=True, errors="replace", timeout=UPLOAD, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RegistryError(f"{' '.join(words[:2])}: {error}") from None
    if process.returncode != 0:
        lines = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", process.stderr).strip().splitlines() or ["it printed nothing"]
        raise RegistryError(texts.sanitized(f"{' '.join(words[:2])}: {re.sub(r'^FATAL: *', '', lines[-1])}"))
    return process.stdout or ""
