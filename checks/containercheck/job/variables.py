"""Decide which values of environment variables are published, and replace the others by fingerprints.

A variable may be a password, and other users can read files in a stage directory or a report. So only values of known
settings are published. Other values get a fingerprint, by which two can be compared.

Standard library only, Python 3.6 or newer.
"""

import hashlib
import hmac
import os
import re
from pathlib import Path
from typing import Dict, Mapping, Tuple

from containercheck.job import texts
from containercheck.job.container_runtimes import RUNTIMES

# fmt: off
#: Variables with published values: names, and beginnings of names (with ``_`` at the end). They are settings of MPI,
#: its fabrics, OpenMP, mathematical libraries, GPUs, loaders and locales; the job's description; and variables of
#: runtimes.
PUBLIC = frozenset([
    "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "CPATH", "MANPATH", "MODULEPATH", "LOADEDMODULES",
    "PYTHONPATH", "PYTHONHASHSEED", "PYTHONUNBUFFERED", "PYTHONMALLOC", "PYTHONDEVMODE", "PYTHONTRACEMALLOC",
    "PYTHONDONTWRITEBYTECODE", "PYTHONPROFILEIMPORTTIME", "PYTHONOPTIMIZE", "GOMAXPROCS", "GOGC",
    "LD_BIND_NOW", "LD_DEBUG", "LD_AUDIT", "GLIBC_TUNABLES",
    "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE",
    "TZ", "TMPDIR", "PS1", "PROMPT_COMMAND", "HOSTNAME", "WM_PROJECT_DIR", "FOAM_", "ESPRESSO_PSEUDO",
    "JSM_JSRUN_PORT", "CUDA_", "ROCR_", "HIP_", "NVIDIA_", "NCCL_", "OMP_", "GOMP_", "KMP_", "OMPI_", "OPAL_", "PMIX_",
    "PRTE_", "PMI_", "HWLOC_", "UCX_", "UCC_", "FI_", "PSM2_", "MPICH_", "MPIR_CVAR_", "I_MPI_", "MV2_", "MKL_",
    "OPENBLAS_", "BLIS_", "DNNL_", "ONEDNN_", "NUMBA_", "SCOREP_", "HDF5_", "ROMIO_",
    "GMX_", "TF_", "MALLOC_", "LC_", "SLURM_", "CONTAINERCHECK_",
    *(runtime.settings for runtime in RUNTIMES if runtime.settings),
])
# fmt: on
#: Words in the name of a variable that is secret anyway. Examples: SLURM_JWT, APPTAINER_DOCKER_PASSWORD, and Open MPI's
#: key for the ranks of a job.
SECRET = re.compile(r"TOKEN|SECRET|PASS|PWD_|KEY|CRED|AUTH|JWT|COOKIE|PRIVATE|SIGNATURE|TRANSPORTS", re.IGNORECASE)
#: Number of digits of a fingerprint: enough to distinguish two values.
DIGITS = 8


def is_public(name: str) -> bool:
    """Return whether the value of a variable may be published.

    >>> [is_public(name) for name in ("OMP_PLACES", "PATH", "PATH_2", "CI_JOB_TOKEN", "SLURM_JWT", "UCX_TLS")]
    [True, True, False, False, False, True]
    """
    if SECRET.search(name):
        return False
    return name in PUBLIC or any(name.startswith(prefix) for prefix in PUBLIC if prefix.endswith("_"))


def redacted(name: str, value: str, key: bytes) -> str:
    """Return the value of a variable if it is public, else its fingerprint.

    :param key: the job's, removed when the job ends. Afterwards even a short secret cannot be guessed with it, and a
        secret has another fingerprint in every job.
    """
    if is_public(name):
        return texts.printable(texts.without_credentials(value))
    digest = hmac.new(key, f"{name}={value}".encode(errors="surrogateescape"), hashlib.sha256).hexdigest()
    return f"hidden:{digest[:DIGITS]}"


def lasting(name: str, value: str, key: bytes) -> str:
    """Return a fingerprint of a variable's value to compare nights; empty if the value may be a secret.

    :param key: see :func:`lasting_key`; empty for no fingerprints.
    """
    if not key or SECRET.search(name):
        return ""
    return hmac.new(key, f"{name}={value}".encode(errors="surrogateescape"), hashlib.sha256).hexdigest()[:DIGITS]


def lasting_key() -> bytes:
    """Return a key of this user that no report has, made when first needed; empty if it cannot be stored.

    It stays in the user's own directory, so that the same value has the same fingerprint in every job.
    """
    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "containercheck"
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        return key_of(state / "variables.key")
    except (OSError, RuntimeError):
        return b""


def split(variables: Mapping[str, str]) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Split variables into public ones and others."""
    public = {name: value for name, value in variables.items() if is_public(name)}
    return public, {name: value for name, value in variables.items() if name not in public}


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, for any umask, and in place of any file there.

    :raises OSError: the file cannot be written.
    """
    texts.write(path, text, 0o600)


def key_of(path: Path) -> bytes:
    """Return a key, made when first needed.

    :param path: of the file with the key; that of a job is removed when the job ends.
    :raises OSError: the file cannot be written or read.
    """
    if not path.exists():
        write_private(path, os.urandom(16).hex())
    return path.read_text().encode()
