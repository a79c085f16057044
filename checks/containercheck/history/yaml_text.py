"""Put an entry into a file of references, and keep what people wrote there: comments, order, quotes.

PyYAML gives the positions of keys and values; the text is changed line by line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import yaml

#: Comment at the end of lines that this library wrote, and of no others.
OURS = re.compile(r"# median of \d+ nights to \d")


class NotPut(Exception):
    """An entry has no place in the file; the message says why."""


def put(text: str, keys: Sequence[Any], values: Sequence[Any], comment: str) -> str:
    """Return a text with an entry ``key: [values]  # comment`` after the other keys, or in place of our older one.

    :param keys: the check, those of the file's index, and the metric.
    :raises NotPut: a person wrote the entry, another key matches it too, or the file is no mapping of mappings.
    """
    entry = yaml.safe_dump(list(values), default_flow_style=True, width=1000).strip()
    lines = text.splitlines()
    try:
        node = yaml.compose(text)
    except yaml.YAMLError as error:
        raise NotPut(f"no YAML: {str(error).splitlines()[0]}") from None
    for depth, key in enumerate(keys):
        if not isinstance(node, yaml.MappingNode) or node.flow_style or not node.value:
            line = node.start_mark.line + 1 if node else 1
            raise NotPut(f"line {line} has no keys on lines of their own below it")
        column = node.value[0][0].start_mark.column
        existing = next((pair for pair in node.value if pair[0].value == str(key)), None)
        if existing is None:
            for other, _ in node.value:
                if 0 < depth < len(keys) - 1 and isinstance(key, str) and _matches(other.value, key):
                    raise NotPut(f"line {other.start_mark.line + 1}, {other.value!r}, speaks for it too")
            rest = [*keys[depth:-1], None]
            new = [f"{' ' * (column + 2 * more)}{_key(missing)}:" for more, missing in enumerate(rest[:-1])]
            new.append(f"{' ' * (column + 2 * len(new))}{_key(keys[-1])}: {entry}  {comment}")
            at = _last_line(node) + 1
            return "\n".join([*lines[:at], *new, *lines[at:]]) + "\n"
        name, node = existing
    line = name.start_mark.line
    if not OURS.search(lines[line]) or _last_line(node) != line:
        raise NotPut(f"line {line + 1} was written by hand")
    lines[line] = f"{' ' * name.start_mark.column}{_key(keys[-1])}: {entry}  {comment}"
    return "\n".join(lines) + "\n"


def _matches(pattern: str, key: str) -> bool:
    """Return whether ReFrame takes one key's entry for another key: it reads keys as regular expressions."""
    try:
        return re.fullmatch(pattern, key) is not None
    except re.error:
        return False


def _last_line(node: yaml.Node) -> int:
    """Return the last line of a node; the end mark of a mapping is behind the comments that follow it."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _last_line(node.value[-1][1])
    return node.end_mark.line


def _key(value: Any) -> str:
    """Return a key as a person would write it."""
    if isinstance(value, str) and (not re.fullmatch(r"\w[\w.-]*", value) or not isinstance(yaml.safe_load(value), str)):
        return json.dumps(value)
    return str(value)
