"""Make a text from a seed: the input of Word Count and Semantic Spaces (standard library only).

    python3 make_text.py --megabytes 64 --compounds 0.02 --fill 768 text.txt
    python3 make_text.py --source mpi-3.0.txt --fill 768 text.txt

Words consist of syllables, and are drawn with Zipf's law, as in natural language. The r-th most frequent word has a
share of 1/r. A line is a document of 16 words about one topic. Half of its words are the topic's own, and half are
common to all topics: a program that looks at neighbouring words finds the topics again. The last letter of a topic's
words identifies the topic; common words end in a vowel. ``--compounds`` writes some words together with the next one;
this makes a long tail of rare words. The same arguments give the same bytes on every machine, with every Python from
3.6 on.
"""

import argparse
import array
import itertools
import os
import random
import shutil
import sys
from pathlib import Path
from typing import BinaryIO, Iterator, List

#: Number of words common to all topics, and of each topic's own words.
COMMON_WORDS = 3000
TOPIC_WORDS = 400
TOPICS = 16
WORDS_IN_LINE = 16
LINES_IN_BLOCK = 512
#: Random bytes of a block: two for a word.
SIZE = 2 * WORDS_IN_LINE * LINES_IN_BLOCK
#: Entries of a topic's table: one for every value of two random bytes.
SLOTS = 1 << 16
#: The last letter of a topic's own words; other words end in a vowel.
ENDINGS = "bcdfghjklmnpqrst"


def make_words(generator: random.Random, count: int, ending: str = "") -> List[str]:
    """Return ``count`` different words of two to four syllables."""
    found = {}
    while len(found) < count:
        syllables = 2 + int(generator.random() * 3)
        word = "".join(
            "bcdfghklmnprstvz"[int(generator.random() * 16)] + "aeiou"[int(generator.random() * 5)]
            for _ in range(syllables)
        )
        found[word + ending] = None
    return list(found)


def zipf_slots(words: List[str], slots: int) -> List[str]:
    """Return ``slots`` entries: the r-th word occurs in proportion to 1/r, but at least once."""
    scale = slots / sum(1 / rank for rank in range(1, len(words) + 1))
    entries = itertools.chain.from_iterable(
        itertools.repeat(word, max(1, int(scale / rank))) for rank, word in enumerate(words, 1)
    )
    filled = list(itertools.islice(entries, slots))
    return filled + words[:1] * (slots - len(filled))


def make_tables(generator: random.Random, compounds: float) -> List[List[bytes]]:
    """Return a table for each topic: for each value of two random bytes a word, with or without a blank after it."""
    common = zipf_slots(make_words(generator, COMMON_WORDS), SLOTS // 2)
    tables = []
    for topic in range(TOPICS):
        own = zipf_slots(make_words(generator, TOPIC_WORDS, ENDINGS[topic]), SLOTS // 2)
        table = [f"{word} ".encode() for word in itertools.chain(common, own)]
        for position in range(int(SLOTS * compounds)):
            # Spread over the whole table, so that rare and frequent words are chosen alike.
            slot = position * 40503 % SLOTS
            table[slot] = table[slot].rstrip()
        tables.append(table)
    return tables


def make_blocks(generator: random.Random, tables: List[List[bytes]]) -> Iterator[bytes]:
    """Yield blocks of lines without end, each about one topic."""
    for number in itertools.count():
        # As randbytes, new in Python 3.9, does.
        draws = array.array("H", generator.getrandbits(8 * SIZE).to_bytes(SIZE, "little"))
        if sys.byteorder == "big":
            draws.byteswap()
        entries = list(map(tables[number % TOPICS].__getitem__, draws))
        lines = (b"".join(entries[at : at + WORDS_IN_LINE]) for at in range(0, len(entries), WORDS_IN_LINE))
        yield b"\n".join(lines) + b"\n"


def write_text(stream: BinaryIO, blocks: Iterator[bytes], left: int) -> None:
    """Write ``left`` bytes of blocks, and the rest of the last line."""
    for block in blocks:
        if len(block) >= left:
            stream.write(block[: block.find(b"\n", left - 1) + 1])
            return
        stream.write(block)
        left -= len(block)


def repeat_text(text: Path, wanted: int) -> None:
    """Append the whole text to itself until it has ``wanted`` bytes or more."""
    size = text.stat().st_size
    with text.open("rb") as source, text.open("ab") as target:
        for _ in range(1, -(-wanted // size)):
            source.seek(0)
            left = size
            while left:
                left -= target.write(source.read(min(left, 1 << 24)))
        target.flush()
        # Pages not yet written to disk cannot be dropped from memory; a later read would take them from there.
        os.fsync(target.fileno())


def main() -> None:
    """Write the text, and the list of its words if asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=64, help="size in units of 10^6 bytes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compounds", type=float, default=0.0, help="share of words joined with the next")
    parser.add_argument("--words", type=Path, help="write all single words to this file, as one line")
    parser.add_argument("--source", type=Path, help="take this text instead of making one")
    parser.add_argument("--fill", type=float, default=0.0, help="repeat the text to this size in megabytes")
    parser.add_argument("text", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.source:
            shutil.copyfile(os.path.expandvars(arguments.source), arguments.text)
        else:
            generator = random.Random(arguments.seed)
            tables = make_tables(generator, arguments.compounds)
            if arguments.words:
                words = sorted({word.strip() for table in tables for word in table})
                arguments.words.write_bytes(b" ".join(words) + b"\n")
            with arguments.text.open("wb") as stream:
                write_text(stream, make_blocks(generator, tables), int(arguments.megabytes * 1e6))
        repeat_text(arguments.text, int(arguments.fill * 1e6))
    except OSError as error:
        sys.exit(f"error: cannot make the text {arguments.text}: {error}")


if __name__ == "__main__":
    main()
