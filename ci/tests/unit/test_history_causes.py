"""Causes: which changes belong together, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import made
import pytest
from containercheck.command import nightly
from containercheck.history.causes import causes, differences
from containercheck.history.change_points import LevelChange
from containercheck.history.series import BARE
from made_nights import made_series

OLD, NEW = ({"runtimes": {"subject": {"version": f"apptainer version 1.{n}", "command": "apptainer"}}} for n in (3, 4))


NOTHING = ("nothing that is recorded changed with it",)
NEWER = ("runtime: apptainer version 1.3 -> apptainer version 1.4",)


def change(kind="overhead", size=10.0, at=3, **more):
    """Return a change that a series with this provenance had."""
    provenance = more.pop("provenance", lambda number: OLD if number < at else NEW)
    own = made_series([1.0] * at + [1.0 + size] * 2, 0.1, kind, provenance=provenance, **more)
    return LevelChange(own, at, 1.0, 1.0 + size, size, 1e-4, size > 0, True)


def test_overhead_alone_is_the_containers_and_names_what_changed_with_it():
    (cause,) = causes([change()])
    assert cause.sentence == (
        "runtime, image or MPI changed on here:one since night 3: the overhead moved (Fine generic rate by +10 %), "
        "and their bare values did not"
    )
    assert cause.differences == NEWER


def test_bare_alone_is_the_machine():
    kernel = {"machine": {"kernel": "6.1", "processor": "x"}}, {"machine": {"kernel": "6.2", "processor": "x"}}
    (cause,) = causes([change(BARE, provenance=lambda number: kernel[number >= 3])])
    assert cause.sentence == (
        "the machine changed on here:one since night 3: bare moved (Fine rate by +10 %), and their overheads did not"
    )
    assert cause.differences == ("kernel: 6.1 -> 6.2",)


def test_what_came_in_one_night_on_one_partition_in_one_direction_has_one_cause():
    together = [change(metric=f"metric{number}") for number in range(5)]
    (cause,) = causes(together)
    assert cause.changes == tuple(together)
    assert "; and 2 more)" in cause.sentence
    others = [change(at=2), change(partition="two"), change(size=-10.0), change(BARE, metric="other")]
    assert len(causes([*together, *others])) == 5


def test_the_worse_come_first_and_of_several_the_largest():
    found = causes([change(size=-10.0), change(metric="small", size=3.0), change(metric="large", size=30.0)])
    assert [cause.changes[0].worse for cause in found] == [True, False]
    assert "(Fine generic large by +30 %; Fine generic small by +3 %)" in found[0].sentence


def points(*provenances):
    return list(provenances)


def test_facts_that_come_and_go_or_were_not_recorded_are_no_difference():
    nodes = points(*({"host": host} for host in ("n1", "n2", "n1", "n2")))
    assert differences(nodes[:2], nodes[2:]) == []
    assert differences(nodes[:1], nodes[1:2]) == ["host: n1 -> n2"]
    older = points({}, {"machine": {"kernel": "6.1"}})
    assert differences(older[:1], older[1:]) == []
    # A variable that is new in every night is not new.
    for names, lines in (("012345", []), ("aaaabb", ["sees generic other variable NAME: a -> b"])):
        found = points(*({"sees": {"generic": {"other variable": {"NAME": name}}}} for name in names))
        assert differences(found[:4], found[4:]) == lines


def test_digests_are_short_and_take_the_place_of_the_path():
    images = [{"image": f"/images/{n}.sif", "image_sha256": 64 * n, "mpi": {"subject": ["/a", n]}} for n in "ab"]
    found = points(*images)
    assert differences(found[:1], found[1:]) == ["image: aaaaaaaaaaaa -> bbbbbbbbbbbb", "MPI library: /a, a -> /a, b"]


def test_the_provenance_of_a_level_before_the_last_does_not_count():
    old = change(at=4, provenance=lambda number: (NEW, NEW, OLD, OLD, NEW, NEW)[number])
    assert causes([old])[0].differences == NOTHING
    assert causes([replace(old, since=2)])[0].differences == NEWER


def test_a_variable_that_appears_in_what_a_container_sees_is_named():
    """A name that only one night has is left out elsewhere: an older library may not have recorded it."""
    clean = {"sees": {"generic": {"libc": "glibc 2.36"}, "bare": {"libc": "glibc 2.36"}}}
    planted = {"sees": {**clean["sees"], "generic": {"libc": "glibc 2.36", "variable": {"UCX_TLS": "tcp"}}}}
    found = points(clean, clean, planted, planted)
    assert differences(found[:2], found[2:]) == ["sees generic variable UCX_TLS: none -> tcp"]
    assert differences(found[2:], found[:2]) == ["sees generic variable UCX_TLS: tcp -> none"]
    older = points({}, {}, planted, planted)
    assert differences(older[:2], older[2:]) == []


@pytest.mark.parametrize(
    ("size", "confirmed", "status"),
    [(10.0, True, nightly.BROKEN), (10.0, False, nightly.FINE), (-10.0, True, nightly.FINE)],
)
def test_only_a_confirmed_change_for_the_worse_is_a_regression(size, confirmed, status):
    own = replace(change(size=size), confirmed=confirmed)
    assert nightly.Result("tonight", cases=made.cases([made.case()]), changes=[own]).status == status
