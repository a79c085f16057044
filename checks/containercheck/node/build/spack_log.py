"""What Spack prints, and which line of it says what is wrong. Standard library only, Python 3.6 or newer."""

import re
from typing import Tuple

from containercheck.node.build import build_logs

#: What stands before a line that says it.
_NOISE = re.compile(r"^\s*(?:==> )?(?:Error: )?(?:[\w.]+Error: )?(?:\d+\. )?")
#: What Spack picks from a build's output (its older installer with numbers of lines), and its own errors.
_PICKED, _ERROR = re.compile(r"^ *>+ +(?:\d+ +)?(?!==>)(.*)"), re.compile(r"^(?:==> )?Error: (.*)")
#: The last line of what it failed with itself, before a build: no source, say.
_RAISED = re.compile(r"^ *(?:\w+\.)+\w*Error: (\S.*)")


class SpackLogged(build_logs.Logged):
    """What a lock file and an installed environment have in common, besides being in a cache."""

    kind, setting = "cache of Spack's environments", "spack_cache"
    #: Parts of lines that say more than the first error, the most telling one first.
    telling: Tuple[str, ...] = ()

    def failed(self, why: str) -> str:
        """Say in two lines what could not be had."""
        return f"{self.doing} {self.name} failed: {why}\nthe whole log: {self.log}"

    def last_words(self) -> str:
        """Return the line of Spack's output that says what is wrong."""
        lines = self.lines()
        for text in self.telling:
            for number, line in enumerate(lines):
                if text in line:
                    more = lines[number + 1].strip() if line.endswith(":") and lines[number + 1 :] else ""
                    return f"{_NOISE.sub('', line).strip()} {more}".strip()
        picked = [match.group(1).strip() for match in map(_PICKED.match, lines) if match]
        errors = [line for line in picked if re.search(r"\berror\b", line, re.IGNORECASE)]
        raised, own = (
            [match.group(1).strip() for match in map(one.match, lines) if match] for one in (_RAISED, _ERROR)
        )
        found = errors[:1] or picked[-1:] or raised[-1:] or own[:1]
        return found[0] if found else super().last_words()
