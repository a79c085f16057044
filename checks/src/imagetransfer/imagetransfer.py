"""Measure the way of an image: built, pushed to a registry, pulled by digest, converted, started (Linux; Python 3.6).

    python3 imagetransfer.py --megabytes 100

The program makes an OCI image (umoci) of a tree with a shell and test files. It pushes the image to a registry that it
runs on the loopback (docker-registry), and pulls it by its digest (skopeo). Then it converts the image for Apptainer or
Singularity, and starts it; the container must print the tree's mark. The output is ``seconds <step> <number>`` for each
step, and ``bytes <name> <number>`` for the tree, the OCI image, the pulled image and the converted image.
"""

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Iterator, List

#: Programs, and the runtimes: one of them is needed.
PROGRAMS, RUNTIMES = ("docker-registry", "skopeo", "umoci"), ("apptainer", "singularity")
#: Exit status for a missing program: the check is skipped.
UNSUPPORTED = 3
#: Bytes of a file of the tree. Half of them are zeros, so that the image compresses to a half.
FILE = 1 << 18
#: Seconds within which the registry must answer.
PATIENCE = 30
CONFIGURATION = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {root}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


class TransferError(Exception):
    """A step failed; the message has the last line of its output."""


def find(names: List[str], path: str) -> str:
    """Return the first of these programs that exists.

    :raises SystemExit: none exists.
    """
    for name in names:
        program = shutil.which(name, path=path)
        if program:
            return program
    missing = ", nor ".join(names)
    print(f"error: no software: no {missing} on the PATH of {os.uname().nodename}: install it", file=sys.stderr)
    sys.exit(UNSUPPORTED)


def run(*words: object) -> str:
    """Run a command and return its output.

    :raises TransferError: the command failed.
    """
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        last = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-1:]
        raise TransferError(f"{words[0]} ended with status {done.returncode}: {''.join(last)}")
    return done.stdout.decode(errors="replace")


def make_tree(tree: Path, megabytes: int, mark: str) -> None:
    """Write a shell with its libraries, and files with the same content on every machine."""
    shell = os.path.realpath("/bin/sh")
    words = [word for line in run("ldd", shell).splitlines() for word in line.split() if word.startswith("/")]
    for source in [shell, *words]:
        target = tree / ("bin/sh" if source == shell else source[1:])
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(os.path.realpath(source), str(target))
        target.chmod(0o755)
    for name in ("dev", "proc", "sys", "tmp", "etc"):
        (tree / name).mkdir(exist_ok=True)
    (tree / "mark").write_text(mark)
    (tree / "data").mkdir()
    for number in range(megabytes * (1 << 20) // FILE):
        seed = hashlib.sha256(str(number).encode()).digest()
        block = b"".join(hashlib.sha256(seed + bytes([turn & 255, turn >> 8])).digest() for turn in range(FILE // 64))
        (tree / "data" / str(number)).write_bytes(block + bytes(FILE - len(block)))


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a directory."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


@contextlib.contextmanager
def registry(program: str, directory: Path) -> Iterator[str]:
    """Run a registry on the loopback as long as the context lasts, and yield its address.

    :raises TransferError: the registry does not answer.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    configuration = directory / "registry.yml"
    configuration.write_text(CONFIGURATION.format(root=json.dumps(str(directory / "registry")), port=port))
    with (directory / "registry.log").open("w") as log:
        process = subprocess.Popen([program, "serve", str(configuration)], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise TransferError(f"{program} does not answer: see its log") from None
                time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def transfer(directory: Path, megabytes: int, path: str) -> None:
    """Run all steps, and print seconds and sizes.

    :raises TransferError: a step failed, or the started image is not the built one.
    """
    serve, skopeo, umoci = (find([name], path) for name in PROGRAMS)
    runtime, mark = find([*RUNTIMES], path), hashlib.sha256(str(time.time()).encode()).hexdigest()
    tree, built, pulled, image = (directory / name for name in ("tree", "built", "pulled", "image.sif"))
    tree.mkdir()
    make_tree(tree, megabytes, mark)
    began = time.monotonic()

    def step(name: str) -> None:
        nonlocal began
        print(f"seconds {name} {time.monotonic() - began:.3f}", flush=True)
        began = time.monotonic()

    run(umoci, "init", "--layout", built)
    run(umoci, "new", "--image", f"{built}:test")
    run(umoci, "insert", "--rootless", "--image", f"{built}:test", tree, "/")
    step("build")
    with registry(serve, directory) as address:
        began = time.monotonic()
        insecure = ["--insecure-policy", "copy", "--quiet"]
        run(skopeo, *insecure, "--dest-tls-verify=false", f"oci:{built}:test", f"docker://{address}/test:latest")
        step("push")
        inspected = run(skopeo, "inspect", "--tls-verify=false", f"docker://{address}/test:latest")
        digest = json.loads(inspected)["Digest"]
        began = time.monotonic()
        by_digest = f"docker://{address}/test@{digest}"
        run(skopeo, *insecure, "--src-tls-verify=false", by_digest, f"oci:{pulled}:test")
        step("pull")
    # With one image in the directory, the runtime needs no name for it; releases write such names differently.
    run(runtime, "build", image, f"oci:{pulled}")
    step("convert")
    show = [image, "/bin/sh", "-c", "read mark </mark; echo $mark"]
    try:
        printed = run(runtime, "exec", "--no-home", *show)
    except TransferError:
        # Root without all capabilities needs a separate user namespace.
        began = time.monotonic()
        printed = run(runtime, "exec", "--no-home", "--userns", *show)
    step("start")
    if mark not in printed:
        raise TransferError("the started image is not the built one")
    for name, where in (("tree", tree), ("built", built), ("pulled", pulled), ("image", image)):
        print(f"bytes {name} {size_of(where)}")
    print(f"digest {'kept' if digest in run(skopeo, 'inspect', f'oci:{pulled}:test') else 'lost'}")


def main() -> None:
    """Print the seconds of each step, or one error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100, help="size of the tree (%(default)s)")
    parser.add_argument("--look", action="store_true", help="only check that all programs exist")
    arguments = parser.parse_args()
    path = os.environ.get("PATH", os.defpath)
    if arguments.look:
        for names in (*([name] for name in PROGRAMS), [*RUNTIMES]):
            find(names, path)
        return
    with tempfile.TemporaryDirectory(dir=".") as directory:
        try:
            transfer(Path(directory).resolve(), arguments.megabytes, path)
        except (OSError, TransferError, ValueError) as error:
            sys.exit(f"imagetransfer.py: error: {error}")


if __name__ == "__main__":
    main()
