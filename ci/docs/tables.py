"""Make the tables of the documents from the code.

    .venv/bin/python ci/docs/tables.py             write the applications into README.md, and the schema of results,
                                                   and print which of both changed
    .venv/bin/python ci/docs/tables.py --check     exit with status 1 if README.md or the schema has another content

The reference page gets its tables when the site is built.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
import re
import sys
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
README = REPOSITORY / "README.md"
CHECKS = REPOSITORY / "checks"
SCHEMA = REPOSITORY / "ci" / "docs" / "result.schema.json"
sys.path.insert(0, str(CHECKS))
#: Lines around the table of applications in README.md.
BEGIN, END = "<!-- applications: ci/docs/tables.py writes this table -->\n", "<!-- end -->"
#: Checks that measure the container runtime, and are not counted as applications.
PROBES = {"Collocation", "ImageFiles", "ImageTransfer", "Isolation", "NewerProcessor", "StartUp"}
#: Facts of an application file that name a source of its program, and the words for it, the first that applies.
SOURCES = {
    "site_provides_input": "the site (licensed)",
    "spack": "Spack",
    "artifacts": "Maven",
    "requirements": "PyPI",
    "source": "this library",
    "debian": "Debian, or modules",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        f"| {' | '.join(' '.join(cell.split()).replace('|', '&#124;') for cell in line)} |\n" for line in lines
    )


def code(text: str) -> str:
    """Return a text as code."""
    return f"`{text}`"


def plain(text: str) -> str:
    """Return a docstring's text as Markdown: without roles of reStructuredText, with single backquotes."""
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text).replace("``", "`")


# Applications


@functools.cache
def cases() -> dict[type, list[Any]]:
    """Return all cases on two nodes, by their check; this needs ReFrame's configuration in this process."""
    os.environ.pop("RFM_CONFIG_FILES", None)
    from reframe.core import config, runtime
    from reframe.frontend.loader import RegressionCheckLoader

    site = config.load_config(str(REPOSITORY / "config" / "virtual_cluster.py"))
    site.select_subconfig("virtual-cluster")
    runtime.init_runtime(site)
    loader = RegressionCheckLoader([str(CHECKS)], recurse=False, external_vars={"full": "yes"})
    by_check: dict[type, list[Any]] = {}
    for case in loader.load_all():
        by_check.setdefault(type(case), []).append(case)
    return dict(sorted(by_check.items(), key=lambda item: item[0].__name__.lower()))


def applications() -> str:
    """Return the table of applications."""
    rows, described = [], set()
    for check, check_cases in cases().items():
        first = check_cases[0]
        module = inspect.getmodule(check)
        # Several checks of one file: the docstring's first line is for the first of them.
        text = (module.__doc__ or "").partition("\n\n")[0].rstrip(".")
        text = first.descr if module in described else text
        described.add(module)
        source = next((words for fact, words in SOURCES.items() if getattr(first, fact)), "the image")
        nodes = "1 or more" if len({case.num_nodes for case in check_cases}) > 1 else "1"
        is_provided = first.site_provides_input or first.spack or first.library
        default = "if provided" if is_provided else "yes"
        default = default if any(not case.full_only for case in check_cases) else "`--full`"
        tags = sorted(first.tags - {"full"})
        rows.append((f"**{check.__name__}**", text, nodes, source, default, ", ".join(tags)))
    head = ("check", "purpose, and its bound", "nodes", "program from", "by default", "tags")
    return table(head, rows)


def count() -> int:
    """Return the number of applications: a file such as ``gromacs_threads.py`` belongs to the one of ``gromacs.py``."""
    files = {Path(inspect.getfile(check)).stem for check in cases() if check.__name__ not in PROBES}
    return sum(not any(file.startswith(f"{other}_") for other in files) for file in files)


def readme(text: str, applications_table: str, number: int) -> str:
    """Return README.md with this table, and this number of applications in both places that have it."""
    before, _, rest = text.partition(BEGIN)
    text = f"{before}{BEGIN}\n{applications_table}\n{END}{rest.partition(END)[2]}"
    return re.sub(r"\d+(?= HPC applications|, bare and contained)", str(number), text)


# Reference


def commands() -> str:
    """Return a section for each command, with its options and exit statuses."""
    from containercheck.command.parsers import COMMANDS
    from containercheck.session.usage import OPTIONS, SHORT

    sections = []
    for name, command in COMMANDS.items():
        options = []
        for option in command.options:
            facts = OPTIONS[option]
            metavar = facts.get("metavar", "")
            values = " ".join([metavar] if isinstance(metavar, str) else metavar)
            flags = ", ".join(filter(None, (SHORT.get(option), option)))
            options.append(
                (code(f"{flags} {values}".strip()), facts["help"].replace("%(default)s", str(facts.get("default"))))
            )
        examples = "".join(f"    containercheck {name} {words}\n" for words, _ in command.examples)
        statuses = "".join(f"- {status}: {meaning}\n" for status, meaning in command.statuses.items())
        usage = " ".join(filter(None, ("containercheck", name, command.words, "[options]")))
        parts = (f"### {name}", code(usage), command.summary, table(("option", "meaning"), options), examples, statuses)
        sections.append("\n\n".join(parts))
    return "\n\n".join(sections)


def statuses() -> str:
    """Return the table of exit statuses."""
    from containercheck.command.parsers import STATUSES

    return table(("status", "meaning"), [(str(status), meaning) for status, meaning in STATUSES.items()])


def meanings(kind: Any) -> dict[str, str]:
    """Return the texts of a dataclass's docstring, by field; empty for a field without one."""
    text = inspect.getdoc(kind) or ""
    described = {field.name: "" for field in dataclasses.fields(kind)}
    for names, meaning in re.findall(r"^:ivar ([\w, ]+): ((?:.*\n?(?!:ivar))*)", text, re.MULTILINE):
        described.update(dict.fromkeys(names.split(", "), " ".join(plain(meaning).split())))
    return described


def fields_of(kind: Any) -> str:
    """Return the fields of a dataclass with the texts of its docstring."""
    return table(("name", "meaning"), [(code(name), meaning) for name, meaning in meanings(kind).items()])


#: JSON schemas of the types that the fields of results have.
TYPES: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    int | None: {"type": ["integer", "null"]},
    float | None: {"type": ["number", "null"]},
    dict[str, str]: {"type": "object", "additionalProperties": {"type": "string"}},
    tuple[str, ...]: {"type": "array", "items": {"type": "string"}},
    tuple[float | None, float | None]: {"type": "array", "items": {"type": ["number", "null"]}},
}


def schema() -> str:
    """Return the JSON schema of an exported line."""
    from containercheck.results.exported import CaseFields
    from containercheck.results.row import SCHEMA as VERSION
    from containercheck.results.row import Row

    properties: dict[str, Any] = {
        "command": {"type": "string", "description": "command that ran it"},
        "status": {"type": "integer", "description": "exit status of that command"},
        "schema": {"const": VERSION, "description": "version of the format"},
    }
    for kind in (CaseFields, Row):
        types = typing.get_type_hints(kind)
        properties |= {name: {**TYPES[types[name]], "description": text} for name, text in meanings(kind).items()}
    required = [field.name for field in dataclasses.fields(CaseFields)]
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of the results of containercheck: a metric of a case",
        "type": "object",
        "properties": properties,
        "required": required,
        "dependentRequired": {"metric": ["schema"]},
    }
    return f"{json.dumps(made, indent=1)}\n"


def extras() -> str:
    """Return the table of a partition's extras, from the comments of ``config/template.py``, which a test compares."""
    text = (REPOSITORY / "config" / "template.py").read_text().partition('"containercheck": {')[2]
    found = re.findall(r'((?: {28}# .*\n)+) {28}"(\w+)": (.*?),?\n', text)
    rows = []
    for comment, name, example in found:
        meaning = " ".join(line.strip().removeprefix("# ") for line in comment.splitlines())
        rows.append((code(name), code(example) if example != "{" else "a dictionary", meaning))
    return table(("extra", "example", "meaning"), rows)


def software() -> str:
    """Return the table of the keys of an application in the extra ``software``."""
    from containercheck.site.extras import Software

    return fields_of(Software)


def sinks() -> str:
    """Return the table of the keys of a sink."""
    from containercheck.site.sinks import Sink

    return fields_of(Sink)


def lines() -> str:
    """Return the table of the fields of an exported line, other than those of its row."""
    from containercheck.results.exported import CaseFields

    return fields_of(CaseFields)


def rows() -> str:
    """Return the table of the fields of a stored row."""
    from containercheck.results.row import Row

    return fields_of(Row)


def variables() -> str:
    """Return the table of the options of a session, which ``-S`` sets."""
    # As text: ReFrame's configuration has to be there when the class is made.
    text = (CHECKS / "containercheck" / "application" / "interface.py").read_text()
    text = text.partition("# Options of a session")[2].partition("# Results, for the reports")[0]
    found = re.findall(r"((?:    #: .*\n)+)    (\w+) = variable\(.*value=(.*?)(?:, loggable=\w+)?\)\n", text)
    rows = []
    for comment, name, default in found:
        meaning = " ".join(line.strip().removeprefix("#: ") for line in comment.splitlines())
        rows.append((code(name), code(default.strip('"') or "empty"), plain(meaning)))
    return table(("variable", "default", "meaning"), rows)


#: Tables of the reference page, by the name in its placeholders.
TABLES = {
    "commands": commands,
    "statuses": statuses,
    "extras": extras,
    "software": software,
    "sinks": sinks,
    "lines": lines,
    "variables": variables,
    "rows": rows,
}


def filled(text: str) -> str:
    """Return a page with its tables in place of the placeholders."""
    return re.sub(r"<!-- table: (\w+) -->", lambda match: TABLES[match[1]](), text)


if __name__ == "__main__":
    wanted = {README: readme(README.read_text(), applications(), count()), SCHEMA: schema()}
    changed = [path for path, text in wanted.items() if path.read_text() != text]
    names = " and ".join(str(path.relative_to(REPOSITORY)) for path in changed)
    if "--check" in sys.argv:
        sys.exit(f"{names} would change: run .venv/bin/python ci/docs/tables.py" if changed else 0)
    for path in changed:
        path.write_text(wanted[path])
    print(f"changed: {names}" if changed else "nothing changed")
