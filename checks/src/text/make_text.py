"""Makes a text out of nothing but a seed: the input of Word Count and Semantic Spaces (standard library only).

    python3 make_text.py --megabytes 64 --compounds 0.02 --fill 768 text.txt
    python3 make_text.py --source mpi-3.0.txt --fill 768 text.txt

Words are made of syllables and drawn with Zipf's law, as in natural language: the r-th most frequent one has a share
of 1/r. A line is a document of 16 words about one topic; half of its words are the topic's own and half are
everybody's, so that a program that looks at neighbours finds the topics again: the last letter of a topic's words tells
which it is, everybody's end in a vowel. Two words written together now and then (``--compounds``) make a long tail of
rare ones. The same arguments give the same bytes on every machine, with every Python from 3.6 on.
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

#: Words that all topics share, and each topic's own.
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
    """Return ``slots`` entries in which the r-th word stands in proportion to 1/r, but at least once."""
    scale = slots / sum(1 / rank for rank in range(1, len(words) + 1))
    entries = itertools.chain.from_iterable(
        itertools.repeat(word, max(1, int(scale / rank))) for rank, word in enumerate(words, 1)
    )
    filled = list(itertools.islice(entries, slots))
    return filled + words[:1] * (slots - len(filled))


def make_tables(generator: random.Random, compounds: float) -> List[List[bytes]]:
    """Return for each topic what two random bytes stand for: a word with the blank after it, or without."""
    common = zipf_slots(make_words(generator, COMMON_WORDS), SLOTS // 2)
    tables = []
    for topic in range(TOPICS):
        own = zipf_slots(make_words(generator, TOPIC_WORDS, ENDINGS[topic]), SLOTS // 2)
        table = [f"{word} ".encode() for word in itertools.chain(common, own)]
        for position in range(int(SLOTS * compounds)):
            # Spread over the whole table, rare words and frequent ones alike.
            slot = position * 40503 % SLOTS
            table[slot] = table[slot].rstrip()
        tables.append(table)
    return tables


def make_blocks(generator: random.Random, tables: List[List[bytes]]) -> Iterator[bytes]:
    """Yield block after block of lines, each block about one topic."""
    for number in itertools.count():
        # As randbytes does, which Python has since 3.9.
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
    """Append the text to itself, the whole of it each time, until it has ``wanted`` bytes or more."""
    size = text.stat().st_size
    with text.open("rb") as source, text.open("ab") as target:
        for _ in range(1, -(-wanted // size)):
            source.seek(0)
            left = size
            while left:
                left -= target.write(source.read(min(left, 1 << 24)))
        target.flush()
        # What is still to be written to disk cannot be dropped from memory, and would be read from there.
        os.fsync(target.fileno())


def main() -> None:
    """Write the text, and the list of its words if asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=64, help="size in units of 10^6 bytes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compounds", type=float, default=0.0, help="share of words written with the next")
    parser.add_argument("--words", type=Path, help="write all single words to this file, as one line")
    parser.add_argument("--source", type=Path, help="take this text, and make none")
    parser.add_argument("--fill", type=float, default=0.0, help="repeat the text until it has so many megabytes")
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
