"""Documents: the site builds without a warning, tables agree with the code, and the English is plain."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from conftest import REPOSITORY
from containercheck.command.parsers import COMMANDS, STATUSES
from containercheck.results.row import Row
from containercheck.session.usage import OPTIONS
from test_sites import extras_of_template

DOCUMENTS = sorted(
    path for pattern in ("*.md", "[!.]*/**/*.md", ".github/**/*.md") for path in REPOSITORY.glob(pattern)
)
SIGNPOSTS = sorted(path for path in REPOSITORY.glob("*/**/README.md") if "/." not in str(path))
#: Most words of a sentence, and of a directory's README.
SENTENCE, SIGNPOST = 20, 150
#: Patterns of sentences that a hurried reader stumbles over, and the remedy.
RIDDLES = {
    r"\b(what|where|whatever|whoever)\b(?![^.?!]*\?)": "write a noun, 'if' or 'in which'",
    r"\bwho(se)?\b": "write a noun",
    r"\bthat which\b|\ball (else|that)\b": "write a noun",
    r"\b(is|are|was|were) (told|said)\b|\btells?\b|\btold\b": "a program shows, reports or prints",
    r"(?<!there )\b(is|are|was|were) no\b": "write 'is not a'",
    r"\bnobody\b|\bno one\b|\bsomebody\b|\banybody\b": "name the person or the tool",
    r"\bof (ours|its own|theirs)\b": "write 'our' or 'its own' before the noun",
    r"\bbeside\b": "write 'next to' or 'besides'",
    r"\bsome \d": "write 'about'",
    r"\bso (many|much|long)\b": "write the number or the limit",
    r"(?:^|(?<=[.!?] ))(Of|From) (two|each|both|what)\b": "begin with the subject",
    r"\bas of\b|\bby coin\b|\bthe one who\b": "write it in plain words",
}


def prose(text: str) -> list[str]:
    """Return the sentences of a document in Markdown: no code, no tables, no links' addresses."""
    text = re.sub(r"^(```|:::)[\s\S]*?^\1.*$|^( {4}|\|).*$|<!--[\s\S]*?-->|^#.*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`\n]*(\n[^`\n]*)?`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    blocks = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", f"\n{text}")
    sentences = [re.split(r"(?<=[.?!:;])\s+", " ".join(block.split())) for block in blocks]
    return [sentence for block in sentences for sentence in block if sentence]


def riddles(sentence: str) -> list[str]:
    """Return the complaints about a sentence."""
    found = [remedy for pattern, remedy in RIDDLES.items() if re.search(pattern, sentence, re.IGNORECASE)]
    words = len(sentence.split())
    return [*found, f"{words} words: split it"] if words > SENTENCE else found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_sentences_are_short_and_plain(path):
    complaints = [
        f"{sentence}: {'; '.join(found)}" for sentence in prose(path.read_text()) if (found := riddles(sentence))
    ]
    assert not complaints, "\n".join(complaints)


def texts_of(source: str) -> Iterator[str]:
    """Yield the docstrings and comments of a module; of a parameter's description, without its name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield re.sub(r":(param|ivar) [\w, ]+:", ";", ast.get_docstring(node) or "")
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    yield from (token.string for token in tokens if token.type == tokenize.COMMENT)


@pytest.mark.parametrize("package", sorted({path.parent for path in (REPOSITORY / "checks").rglob("*.py")}), ids=str)
def test_docstrings_and_comments_are_plain(package):
    complaints = [
        f"{path.name}: {pattern}: {text}"
        for path in package.glob("*.py")
        for text in texts_of(path.read_text())
        for pattern in RIDDLES
        if re.search(pattern, " ".join(text.split()), re.IGNORECASE)
    ]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("path", SIGNPOSTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_the_readme_of_a_directory_is_a_signpost(path):
    assert len(path.read_text().split()) <= SIGNPOST


def test_the_table_of_applications_is_that_of_the_classes():
    command = [sys.executable, str(REPOSITORY / "ci" / "docs" / "tables.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_site_has_no_warning_and_every_table(tmp_path):
    """It is built with warnings as errors: a broken link, or a page that no other page names."""
    pytest.importorskip("sphinx", reason="no sphinx: ci/setup --tests installs it")
    words = ["-W", "-q", "-E", "-b", "html", "-d", str(tmp_path / "pages"), "ci/docs", str(tmp_path / "site")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "site" / "reference.html").read_text()
    assert "<!-- table" not in page
    for name in (*COMMANDS, *OPTIONS, *extras_of_template(), *(field.name for field in fields(Row)), "seconds", "duet"):
        assert f">{name}" in page or f" {name}" in page, name


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_each_command_in_a_document_is_understood(path):
    """Commands and options of ours; each other option has to be one of ReFrame's."""
    for name, words in re.findall(r"(?:containercheck|ci)[ /]([a-z]+)\b([^#`\n]*)", path.read_text()):
        if name in COMMANDS:
            options = re.findall(r"(?<= )--[\w-]+", words)
            assert {*options} <= {*COMMANDS[name].options, "--help", "--dry-run", "--system"}, (name, words)


def test_the_release_has_one_version_and_a_date():
    version = re.search(r'^version = "(.*)"$', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert f"\nversion: {version}\n" in (REPOSITORY / "CITATION.cff").read_text()
    log = (REPOSITORY / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", log, re.MULTILINE)
    assert len(log.splitlines()) <= 40


def test_the_help_is_plain():
    texts = [facts["help"] for facts in OPTIONS.values()] + [*STATUSES.values()]
    for command in COMMANDS.values():
        purposes = [purpose for _, purpose in command.examples]
        texts += [command.summary, command.note, *purposes, *command.statuses.values()]
    complaints = [f"{part}: {found}" for text in texts for part in prose(text) if (found := riddles(part))]
    assert not complaints, "\n".join(complaints)


def test_every_action_of_others_is_pinned_by_its_hash():
    for path in REPOSITORY.glob(".github/**/*.yml"):
        for action in re.findall(r"^\s*(?:# )? *- uses: (\S+)", path.read_text(), re.MULTILINE):
            assert action.startswith("./") or re.search(r"@[0-9a-f]{40}$", action), (path, action)


def example(page: str, language: str, number: int = 0) -> str:
    """Return a block of code of a page."""
    text = (REPOSITORY / "ci" / "docs" / page).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)[number]


def test_the_examples_of_applications_load_in_three_variants(tmp_path):
    for number in (0, 1):
        (tmp_path / f"example{number}.py").write_text(example("applications.md", "python", number))
    command = [Path(sys.executable).with_name("reframe"), "-c", tmp_path, "-l"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "Found 6 check(s)" in done.stdout, done.stdout + done.stderr


def test_the_recipe_of_the_example_compiles_its_program_with_its_options():
    check, recipe = example("applications.md", "python", 1), example("images.md", "text")
    source, program = (re.search(rf'{name} = "(.*?)"', check)[1] for name in ("source", "executable"))
    options = " ".join(ast.literal_eval(re.search(r"compile_options = (\[.*\])", check)[1]))
    copied = f"/usr/local/src/{Path(source).name}"
    assert f"\n    checks/src/{source} {copied}\n" in recipe
    assert recipe.endswith(f"\n    with-compiler '' mpicc -O2 -Wall -o /usr/local/bin/{program} {copied} {options}\n")
    # As the recipes of this checkout are written.
    assert (
        recipe.replace("heat", "wordcount").splitlines()[1:9]
        == ((REPOSITORY / "images" / "wordcount.def").read_text().splitlines()[1:9])
    )


# Pictures of a terminal, and of a page


#: A line that moves, which is written over, and two that stay.
SHOWN = r"printf 'first\nmoving 1\r\033[Kmoving 2\r\033[K\033[31mFAIL\033[0m second\n'; exit 3"


def test_a_picture_has_the_lines_that_stay_and_the_status_is_the_commands(tmp_path):
    picture = tmp_path / "run.svg"
    words = [sys.executable, str(REPOSITORY / "ci" / "picture"), "--title", "ci/run", str(picture), "sh", "-c", SHOWN]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (3, "")
    svg = picture.read_text().replace("&#160;", " ")
    assert svg.startswith("<svg")
    assert all(text in svg for text in ("first", "FAIL", "second", "ci/run"))
    assert "moving" not in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "").replace("https://www.textualize.io", "")
