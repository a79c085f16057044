"""A cause that no rule knows is found by taking half of all differences back, again and again."""

from __future__ import annotations

import math

import pytest
from containercheck.job.explain import halving
from containercheck.job.explain.causes import AND, HIDE, LIMIT, SET, SEVERAL, UNSET, Change
from containercheck.job.explain.observations import Observation
from hypothesis import given
from hypothesis import strategies as st

BARE = Observation(
    environment={"PATH": "/usr/bin:/bin", "LANG": "C", "TERM": "xterm", "OMPI_COMM_WORLD_RANK": "0"},
    limits={"Max open files": "1024", "Max data size": "unlimited", "Max core file size": "0"},
)


def container(environment=(), limits=(), set_by=()):
    """Return what a container sees that differs from bare in this only, and in what all containers have."""
    of_runtime = {"APPTAINER_NAME": "x.sif", "PS1": "Apptainer> ", "LD_LIBRARY_PATH": "/.singularity.d/libs"}
    return Observation(
        environment={**BARE.environment, "TERM": "vt100", **of_runtime, **dict(environment)},
        limits={**BARE.limits, **dict(limits)},
        set_by=dict(set_by),
    )


def changes(seen, job=()):
    return [cause.change for kind in halving.differences(BARE, seen, dict(job)) for cause in kind]


def test_a_container_that_differs_as_all_do_has_nothing_to_halve():
    assert changes(container(), {"APPTAINER_CACHEDIR": "/cache", "HOME": "/root"}) == []


@pytest.mark.parametrize(
    ("seen", "job", "change"),
    [
        (container({"PETSC_OPTIONS": "hidden:1"}), {}, Change(UNSET, "PETSC_OPTIONS")),
        (container({"LANG": "de_DE"}), {}, Change(SET, "LANG=C")),
        (container({"PATH": "/x/bin:/usr/bin:/bin"}), {}, Change(SET, "PATH=/usr/bin:/bin")),
        (container({"PYTHONPATH": "/x"}), {}, Change(UNSET, "PYTHONPATH")),
        (container(limits={"Max open files": "16"}), {}, Change(LIMIT, "Max open files=1024")),
        (container(limits={"Max data size": "4096"}), {}, Change(LIMIT, "Max data size=unlimited")),
        (container(), {"APPTAINER_HOME": "/x:/root"}, Change(HIDE, "APPTAINER_HOME")),
        (container(), {"SINGULARITYENV_PREPEND_PATH": "/x"}, Change(HIDE, "SINGULARITYENV_PREPEND_PATH")),
        # What sets a variable in the container is taken back with the variable.
        (
            container({"LANG": "de_DE"}, set_by={"LANG": "APPTAINERENV_LANG"}),
            {"APPTAINERENV_LANG": "de_DE"},
            Change(SET, "LANG=C"),
        ),
    ],
)
def test_each_difference_has_the_change_that_takes_it_back(seen, job, change):
    assert changes(seen, job) == [change]


def test_several_places_are_taken_out_of_one_path_at_once():
    (kind,) = halving.differences(BARE, container({"PATH": "/x:/usr/bin:/y:/bin", "A": "hidden:1"}), {})
    change = halving.together(kind).change
    assert change == Change(SEVERAL, f"unset A{AND}set PATH=/usr/bin:/bin")
    assert [*map(type(change), *zip(*change.parts))] == [Change(UNSET, "A"), Change(SET, "PATH=/usr/bin:/bin")]
    assert change.label == "A removed and PATH=/usr/bin:/bin"


@given(st.integers(1, 60), st.data())
def test_what_has_to_be_taken_back_is_found_and_nothing_else(count, data):
    """Where all of some differences have to be taken back, as each slows by itself."""
    kinds = [[halving._cause(f"V{number}", "", "", Change(UNSET, f"V{number}")) for number in range(count)]]
    guilty = data.draw(st.sets(st.sampled_from([cause.about for cause in kinds[0]]), min_size=1, max_size=3))
    steps = []

    def helps(groups):
        steps.append(len(groups))
        return [guilty <= {cause.about for cause in group} for group in groups]

    assert {cause.about for cause in halving.culprits(kinds, helps)} == guilty
    assert len(steps) <= 1 + len(guilty) * 2 * math.ceil(math.log2(count) + 1)
    if len(guilty) == 1:
        assert len(steps) <= 1 + math.ceil(math.log2(count))


def test_of_two_that_slow_only_together_one_is_enough():
    kinds = [[halving._cause(name, "", "", Change(UNSET, name)) for name in "ABCDEFGH"]]
    found = halving.culprits(
        kinds, lambda groups: [bool({"B", "G"} & {cause.about for cause in each}) for each in groups]
    )
    assert [cause.about for cause in found] == ["B"]


def test_what_spoils_the_container_keeps_no_other_kind_from_being_found():
    kinds = [[halving._cause(name, "", "", Change(UNSET, name)) for name in names] for names in ("AB", "CD")]

    def helps(groups):
        named = [{cause.about for cause in group} for group in groups]
        return ["D" in names and "A" not in names for names in named]

    assert [cause.about for cause in halving.culprits(kinds, helps)] == ["D"]
    assert halving.culprits(kinds, lambda groups: [False] * len(groups)) == []
    assert halving.culprits([], lambda groups: []) == []
