"""A cause that no rule knows is found by taking half of all differences back, again and again."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from containercheck.job.explain import explanation, halving
from containercheck.job.explain.causes import (
    AND,
    DIRECT,
    HIDE,
    LIMIT,
    RULES,
    SET,
    SEVERAL,
    UNSET,
    WITHOUT,
    Change,
)
from containercheck.job.explain.observations import Observation, Use
from hypothesis import given
from hypothesis import strategies as st

BARE = Observation(
    environment={"PATH": "/usr/bin:/bin", "LANG": "C", "TERM": "xterm", "OMPI_COMM_WORLD_RANK": "0"},
    limits={"Max open files": "1024", "Max data size": "unlimited", "Max core file size": "0"},
    status={"Home": "1 /root"},
)


def container(environment=(), limits=(), set_by=(), **others):
    """Return what a container sees that differs from bare in this only, and in what all containers have."""
    of_runtime = {"APPTAINER_NAME": "x.sif", "PS1": "Apptainer> ", "LD_LIBRARY_PATH": "/.singularity.d/libs"}
    return Observation(
        environment={**BARE.environment, "TERM": "vt100", **of_runtime, **dict(environment)},
        limits={**BARE.limits, **dict(limits)},
        set_by=dict(set_by),
        **others,
    )


def changes(seen, job=(), **start):
    return [cause.change for kind in halving.kinds_of(BARE, seen, dict(job), start) for cause in kind]


def to_unset(name):
    return RULES["several"].cause(Change(UNSET, name), about=name, sentence="", remedy="")


def test_a_container_that_differs_as_all_do_has_nothing_to_halve():
    assert changes(container(), {"APPTAINER_CACHEDIR": "/cache", "HOME": "/root"}) == []


@pytest.mark.parametrize(
    ("seen", "job", "change"),
    [
        (container({"PETSC_OPTIONS": "hidden:1"}), {}, Change(UNSET, "PETSC_OPTIONS")),
        (container({"LANG": "de_DE"}), {}, Change(SET, "LANG=C")),
        (container({"BASH_FUNC_seq%%": "hidden:1"}), {}, Change(UNSET, "BASH_FUNC_seq%%")),
        (container({"PATH": "/x/bin:/usr/bin:/bin"}), {}, Change(SET, "PATH=/usr/bin:/bin")),
        (container({"PYTHONPATH": "/x"}), {}, Change(UNSET, "PYTHONPATH")),
        (container(status={"Home": "2 /x"}), {}, Change(SEVERAL, f"bind /root{AND}set HOME=/root")),
        (container(limits={"Max open files": "4096"}), {}, Change(LIMIT, "Max open files=1024")),
        (container(limits={"Max core file size": "4096"}), {}, Change(LIMIT, "Max core file size=0")),
        (container(), {"APPTAINER_HOME": "/x:/root"}, Change(HIDE, "APPTAINER_HOME")),
        (container(), {"SINGULARITYENV_PREPEND_PATH": "/x"}, Change(HIDE, "SINGULARITYENV_PREPEND_PATH")),
        # What sets a variable in the container is taken back with the variable.
        (
            container({"LANG": "de_DE"}, set_by={"LANG": "APPTAINERENV_LANG"}),
            {"APPTAINERENV_LANG": "de_DE"},
            Change(SET, "LANG=C"),
        ),
        (
            container({"PATH": "/x:/usr/bin:/bin"}, set_by={"PATH /x": "APPTAINERENV_PREPEND_PATH"}),
            {"APPTAINERENV_PREPEND_PATH": "/x"},
            Change(SET, "PATH=/usr/bin:/bin"),
        ),
    ],
)
def test_each_difference_has_the_change_that_takes_it_back_and_is_not_named_before(seen, job, change):
    assert changes(seen, job) == [change]
    metric = SimpleNamespace(name="time", measures=())
    assert explanation.causes(BARE, seen, (Use(), Use()), [metric]) == []
    assert explanation.causes_of_end(BARE, seen, (Use(), Use())) == []


def test_a_place_in_path_is_named_with_its_setter_and_the_programs_that_it_hides():
    seen = container(
        {"PATH": "/x:/usr/bin:/y:/bin"},
        set_by={"PATH /x": "APPTAINERENV_PREPEND_PATH"},
        hidden_programs={"/x/seq": "/usr/bin/seq", "/z/cat": "/bin/cat"},
    )
    ((first, second),) = halving.kinds_of(BARE, seen, {}, {})
    assert first.sentence == (
        "/x is first in PATH in the container, set by APPTAINERENV_PREPEND_PATH, and not on the host: "
        "PATH finds /x/seq, not /usr/bin/seq"
    )
    assert first.remedy.startswith("take /x out of APPTAINERENV_PREPEND_PATH")
    assert second.sentence == "/y is a place in PATH in the container, and not on the host"


def test_a_variable_of_the_job_with_a_hidden_value_is_named_without_it():
    job = {"APPTAINERENV_SITE": "hunter2", "APPTAINER_HOME": "/x:/root"}
    sentences = {cause.sentence for kind in halving.kinds_of(BARE, container(), job, {}) for cause in kind}
    assert sentences == {"APPTAINERENV_SITE is set for the job", "APPTAINER_HOME=/x:/root is set for the job"}


def test_options_of_site_and_check_are_left_out_one_by_one_with_their_values():
    options = ["--bind", "/data:/data", "--no-mount", "tmp", "--env", "A=1", "--secret=hunter2", "'--note=a b'"]
    kinds = halving.kinds_of(BARE, container(), {}, {"options": options})
    # Variables are taken back by themselves; secrets are not written down.
    assert [[cause.change for cause in kind] for kind in kinds] == [
        [Change(WITHOUT, "--bind /data:/data")],
        [Change(WITHOUT, "--no-mount tmp")],
    ]


@pytest.mark.parametrize(("text", "is_found"), [("#!/bin/sh\nulimit -n 16; exec apptainer", True), ("\x7fELF", False)])
@pytest.mark.parametrize("is_named", [True, False])
def test_a_script_around_the_runtime_is_found_with_the_runtime_itself(tmp_path, monkeypatch, text, is_found, is_named):
    """By the script's text, or further back on the PATH."""
    for name, content in (("site", text), ("real", "\x7fELF")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "apptainer").write_text(content)
        (tmp_path / name / "apptainer").chmod(0o755)
    real = tmp_path / "real" / "apptainer"
    with (tmp_path / "site" / "apptainer").open("a") as stream:
        stream.write(f"\n{real}\n" if is_named else "")
    monkeypatch.setenv("PATH", f"{tmp_path}/site" + ("" if is_named else f":{tmp_path}/real"))
    for command in ("apptainer", f"{tmp_path}/site/apptainer"):
        assert changes(container(), command=command) == ([Change(DIRECT, str(real))] if is_found else [])
    assert changes(container(), command="podman") == changes(container(), command="/gone/apptainer") == []


def test_a_script_with_a_name_of_its_own_is_found_with_the_runtime_that_it_starts(tmp_path):
    (tmp_path / "apptainer").write_text("\x7fELF")
    script = tmp_path / "run-image"
    script.write_text(f'#!/bin/sh\nsleep 1; exec {tmp_path}/apptainer "$@"\n')
    for path in (script, tmp_path / "apptainer"):
        path.chmod(0o755)
    assert changes(container(), command=str(script)) == [Change(DIRECT, f"{tmp_path}/apptainer")]


def test_several_places_are_taken_out_of_one_path_at_once():
    (kind,) = halving.kinds_of(BARE, container({"PATH": "/x:/usr/bin:/y:/bin", "A": "hidden:1"}), {}, {})
    change = halving.together(kind).change
    assert change == Change(SEVERAL, f"unset A{AND}set PATH=/usr/bin:/bin")
    assert [*map(type(change), *zip(*change.parts))] == [Change(UNSET, "A"), Change(SET, "PATH=/usr/bin:/bin")]
    assert change.label == "A removed and PATH=/usr/bin:/bin"


@given(st.integers(1, 60), st.data())
def test_what_has_to_be_taken_back_is_found_and_nothing_else(count, data):
    """Where all of some differences have to be taken back, as each slows by itself."""
    kinds = [[to_unset(f"V{number}") for number in range(count)]]
    guilty = data.draw(st.sets(st.sampled_from([cause.about for cause in kinds[0]]), min_size=1, max_size=3))
    steps = []

    def helps(groups):
        steps.append(len(groups))
        return [guilty <= {cause.about for cause in group} for group in groups]

    assert {cause.about for cause in halving.culprits(kinds, helps)} == guilty
    assert len(steps) <= 1 + len(guilty) * 2 * math.ceil(math.log2(count) + 1)
    if len(guilty) == 1:
        assert len(steps) <= 1 + math.ceil(math.log2(count))


def test_the_kind_with_the_fewest_differences_is_found_and_a_script_only_if_it_is_alone():
    """Where each kind takes all away: one variable of the job empties the container's environment, say."""
    many = [to_unset(name) for name in "ABCD"]
    emptied = RULES["start: variable"].cause(Change(HIDE, "APPTAINER_CLEANENV"), name="APPTAINER_CLEANENV", setting="")
    script = RULES["start: script"].cause(Change(DIRECT, "/a"), command="apptainer", script="/b", path="/a")
    every = lambda groups: [True] * len(groups)  # noqa: E731
    assert halving.culprits([many, [script], [emptied]], every) == [emptied]
    assert halving.culprits([[script], many], every)[0] in many
    assert halving.culprits([[script]], every) == [script]


def test_of_two_that_slow_only_together_one_is_enough():
    kinds = [[to_unset(name) for name in "ABCDEFGH"]]
    found = halving.culprits(
        kinds, lambda groups: [bool({"B", "G"} & {cause.about for cause in each}) for each in groups]
    )
    assert [cause.about for cause in found] == ["B"]


def test_what_spoils_the_container_keeps_no_other_kind_from_being_found():
    kinds = [[to_unset(name) for name in names] for names in ("AB", "CD")]

    def helps(groups):
        named = [{cause.about for cause in group} for group in groups]
        return ["D" in names and "A" not in names for names in named]

    assert [cause.about for cause in halving.culprits(kinds, helps)] == ["D"]
    assert halving.culprits(kinds, lambda groups: [False] * len(groups)) == []
    assert halving.culprits([], lambda groups: []) == []
