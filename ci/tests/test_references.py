"""References: what a file must say, and what becomes of one that does not."""

import pytest
from conftest import REPOSITORY
from containercheck import references
from reframe.core.exceptions import ReframeError

CHECKS = REPOSITORY / "checks"


def test_no_file_is_no_reference(tmp_path):
    assert references.file_of(str(tmp_path), "Planted") == {}


@pytest.mark.parametrize("path", sorted((CHECKS / "references").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_of_ours_is_keyed(path):
    assert references.file_of(str(CHECKS), path.stem) == {"$ref": f"references/{path.name}"}


@pytest.mark.parametrize("text", ["Planted:\n  generic: {}\n", "Other:\n  $index: [$partition, variant, num_nodes]\n"])
def test_file_that_is_not_keyed_is_named(tmp_path, text):
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "Planted.yaml").write_text(text)
    with pytest.raises(ReframeError, match=r"references/Planted.yaml must begin with"):
        references.file_of(str(tmp_path), "Planted")
