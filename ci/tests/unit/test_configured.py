"""ReFrame's configuration, as a session asks for it."""

from __future__ import annotations

import subprocess

from containercheck.session import reframe_process


def test_reframe_is_started_once_for_all_parts_of_its_configuration(tmp_path, monkeypatch):
    """ReFrame sets a variable when it is imported, which may be after the first question."""
    (tmp_path / "config.py").write_text("site_configuration = {}\n")
    place = reframe_process.Workplace(tmp_path, config=tmp_path / "config.py")
    started, start = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *words, **facts: started.append(words) or start(*words, **facts))
    monkeypatch.delenv("RFM_INSTALL_PREFIX", raising=False)
    reframe_process.configured([], place, reframe_process.STAGE)
    monkeypatch.setenv("RFM_INSTALL_PREFIX", str(tmp_path))
    reframe_process.configured([], place, reframe_process.DATABASE)
    assert len(started) == 1
    # What changes the answer is another question.
    monkeypatch.setenv("RFM_STAGE_DIR", str(tmp_path / "elsewhere"))
    assert reframe_process.configured([], place, reframe_process.STAGE) == str(tmp_path / "elsewhere")
