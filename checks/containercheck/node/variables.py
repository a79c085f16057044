"""Environment variables: which values may be told, and what is told of the others.

A variable may be a password, and what is written into a stage directory or a report is read by others. So values are
told only of names that are known to hold settings; of all others a fingerprint that tells whether two are the same.

Standard library only, Python 3.6 or newer.
"""

import hashlib
import hmac
import os
import re
from pathlib import Path
from typing import Dict, Mapping, Tuple

from containercheck.node import texts
from containercheck.node.container_runtimes import RUNTIMES

# fmt: off
#: Variables whose values may be told: names, and beginnings of names (with ``_`` at the end). Settings of MPI, its
#: fabrics, OpenMP, mathematical libraries, GPUs, loaders and locales; what describes the job, and what runtimes set.
PUBLIC = frozenset([
    "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "CPATH", "MANPATH", "MODULEPATH", "LOADEDMODULES",
    "PYTHONPATH", "PYTHONHASHSEED", "PYTHONUNBUFFERED", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE",
    "TZ", "TMPDIR", "PS1", "PROMPT_COMMAND", "HOSTNAME", "WM_PROJECT_DIR", "FOAM_SIGFPE", "FOAM_ETC", "ESPRESSO_PSEUDO",
    "JSM_JSRUN_PORT", "CUDA_", "ROCR_", "HIP_", "NVIDIA_", "NCCL_", "OMP_", "GOMP_", "KMP_", "OMPI_", "OPAL_", "PMIX_",
    "PRTE_", "PMI_", "HWLOC_", "UCX_", "UCC_", "FI_", "PSM2_", "MPICH_", "MPIR_CVAR_", "I_MPI_", "MV2_", "MKL_",
    "OPENBLAS_", "BLIS_", "GMX_", "TF_", "MALLOC_", "LC_", "SLURM_", "CONTAINERCHECK_",
    *(runtime.settings for runtime in RUNTIMES if runtime.settings),
])
# fmt: on
#: Words in a name that make it a secret's all the same (SLURM_JWT, APPTAINER_DOCKER_PASSWORD, and the key that Open
#: MPI gives the ranks of a job).
SECRET = re.compile(r"TOKEN|SECRET|PASS|PWD_|KEY|CRED|AUTH|JWT|COOKIE|PRIVATE|SIGNATURE|TRANSPORTS", re.IGNORECASE)
#: Digits of a fingerprint: enough to tell two values apart.
DIGITS = 8


def is_public(name: str) -> bool:
    """Tell whether the value of a variable may be told.

    >>> [is_public(name) for name in ("OMP_PLACES", "PATH", "PATH_2", "CI_JOB_TOKEN", "SLURM_JWT", "UCX_TLS")]
    [True, True, False, False, False, True]
    """
    if SECRET.search(name):
        return False
    return name in PUBLIC or any(name.startswith(one) for one in PUBLIC if one.endswith("_"))


def redacted(name: str, value: str, key: bytes) -> str:
    """Return what may be told of a value: itself, or a fingerprint.

    :param key: of the job, and forgotten when that ends: nobody can try values with it afterwards, however short the
        secret is; and the fingerprint of one secret is another in every job.
    """
    if is_public(name):
        return texts.printable(texts.without_credentials(value))
    digest = hmac.new(key, os.fsencode(f"{name}={value}"), hashlib.sha256).hexdigest()
    return f"hidden:{digest[:DIGITS]}"


def split(variables: Mapping[str, str]) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Return those whose values may be told, and the others."""
    public = {name: value for name, value in variables.items() if is_public(name)}
    return public, {name: value for name, value in variables.items() if name not in public}


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whatever the umask is and whatever was there.

    :raises OSError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(str(temporary), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", errors="surrogateescape") as stream:
        stream.write(text)
    os.replace(str(temporary), str(path))


def key_of(path: Path) -> bytes:
    """Return the key of a job, which is made when it is first asked for.

    :param path: of a file that the job removes when it ends.
    """
    if not path.exists():
        write_private(path, os.urandom(16).hex())
    return path.read_text().encode()
