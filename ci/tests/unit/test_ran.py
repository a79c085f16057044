"""What the end of a session says of what ran: images, and what repeats a failure."""

from __future__ import annotations

import made
from containercheck.report import ran, table
from containercheck.results.cases import collect

KNOWN = {"image": "/images/hpl.sif", "image_sha256": "ab" * 32, "image_bytes": 90 << 20}
PAIR = {name: {"image": f"/images/{name}.sif", "image_sha256": name * 4} for name in ("old", "new")}


def test_each_image_is_named_once_with_its_digest_and_a_failure_with_what_repeats_it():
    failed = {"result": "fail", "reproducer": "/stage/one two/reproduce.sh", "fail_reason": "slow"}
    compared = {"side": {"baseline": "bare", "old": "old", "new": "new"}}
    cases = [
        made.case("HPL", "bare", provenance={}),
        made.case("HPL", "integrated", provenance=KNOWN),
        made.case("HPL", "generic", provenance=KNOWN, **failed),
        made.case("GROMACS", "generic", provenance={"images": PAIR}, compared=compared, **failed),
        made.case("IMB", "bare", provenance={}, **failed),
        made.case("IMB", "generic", provenance={"image": "/images/imb", "image_sha256": None}),
    ]
    found = collect([{"runs": [{"testcases": cases}]}])
    assert ran.lines(found) == [
        f"image: /images/hpl.sif, sha256 {'ab' * 32}, 90 MiB: HPL integrated, HPL generic",
        "image: /images/old.sif, sha256 oldoldoldold: GROMACS generic (old)",
        "image: /images/new.sif, sha256 newnewnewnew: GROMACS generic (new)",
        "image: /images/imb, no digest: it is a directory: IMB generic",
        "to repeat HPL generic: bash '/stage/one two/reproduce.sh' subject",
        "to repeat GROMACS generic: bash '/stage/one two/reproduce.sh' new",
        "to repeat IMB bare: bash '/stage/one two/reproduce.sh' baseline",
    ]
    assert set(ran.lines(found)) < set(table.lines(found))


def test_the_size_of_an_image_stands_beside_that_of_its_files():
    known = {**KNOWN, "image_content_bytes": 278 << 20}
    (line,) = ran.lines(collect([{"runs": [{"testcases": [made.case("HPL", "generic", provenance=known)]}]}]))
    assert line == f"image: /images/hpl.sif, sha256 {'ab' * 32}, 90 MiB, with 278 MiB of files: HPL generic"


def test_of_many_users_of_an_image_some_are_named():
    cases = [made.case(name, provenance=KNOWN) for name in made.APPLICATIONS[:5]]
    (line,) = ran.lines(collect([{"runs": [{"testcases": cases}]}]))
    assert line.endswith(": GROMACS generic, HPCC generic, HPL generic and 2 more")
