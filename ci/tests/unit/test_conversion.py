"""An image that is unpacked for a runtime of directories has no program that root's rights come with."""

from __future__ import annotations

import stat

import pytest
from conftest import write_program
from containercheck.job import locks
from containercheck.job.build import image_convert
from containercheck.job.container_runtimes import by_name

#: A runtime of image files, whose only image has these files.
APPTAINER = """
case "$*" in
    *--version*) echo "apptainer version 1.4.5" ;;
    *"env -0") printf 'PATH=/bin\\0' ;;
    *) exec tar -C {files} -cf - usr ;;
esac"""


@pytest.mark.parametrize(("runtime", "way"), [("Apptainer", "unpacked"), ("Charliecloud", "")])
def test_setuid_programs_lose_it(tmp_path, monkeypatch, runtime, way):
    """As root, they were root's on the host, in a cache that everybody can read."""
    for name in ("MACHINE_LOCK", "TURN_LOCK"):
        monkeypatch.setattr(locks, name, tmp_path / name)
    files = tmp_path / "files"
    (files / "usr" / "bin").mkdir(parents=True)
    for name, mode in (("su", 0o4755), ("wall", 0o2755), ("open", 0o777)):
        (files / "usr" / "bin" / name).touch()
        (files / "usr" / "bin" / name).chmod(mode)
    write_program(tmp_path / "apptainer", APPTAINER.format(files=files))
    kind = image_convert.kind_for(by_name(runtime).in_way(way))
    source = tmp_path / "image.sif"
    made = kind(source, {"sha256": "0" * 64}, tmp_path / "cache", str(tmp_path / "apptainer")).ensure()
    modes = [stat.S_IMODE((made / "usr" / "bin" / name).stat().st_mode) for name in ("su", "wall", "open")]
    assert [mode & ~0o755 for mode in modes] == [0, 0, 0]
