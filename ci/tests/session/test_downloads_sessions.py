"""A published input in a real session."""

from __future__ import annotations

from conftest import REPOSITORY
from served import pin, served  # noqa: F401


def test_a_check_runs_the_published_input(session, served):
    directory, address = served
    file = directory / "standard.txt"
    file.write_text("zebra crossing zebra\n" * 1000)
    select = ("-n", "WordCount%variant=bare%num_nodes=1%ranks=0", "-S", "megabytes=1")
    checks = REPOSITORY / "checks" / "wordcount.py"
    reference = f"{address}/standard.txt{pin(file)}"
    result = session(*select, "-S", f"published={reference}", checks=checks)
    assert result.case("bare")["result"] == "pass", result.output
    assert result.case("bare")["provenance"]["input"] == reference
    counted = next(result.stage.rglob("rounds/01-baseline/out")).read_text()
    assert "word 1 zebra: " in counted
    wrong = session(*select, "-S", f"published={address}/standard.txt#sha256={64 * '0'}", checks=checks)
    assert wrong.status != 0
    assert "is not the pinned one" in wrong.case("bare")["fail_reason"]


def test_an_input_that_the_site_names_and_does_not_have_fails_with_the_reason(session, site):
    settings = site(extras={"inputs": {"WordCount": "/nowhere/standard.txt"}})
    select = ("-n", "WordCount%variant=bare%num_nodes=1%ranks=0")
    result = session("-C", settings, *select, checks=REPOSITORY / "checks" / "wordcount.py")
    assert "no input: /nowhere/standard.txt" in result.case("bare")["fail_reason"]
