"""Make images of blended galaxies, and the masks of their overlap, for unet.py.

    python galaxies.py --images 200 --size 64 galaxies.npz

Each image shows two discs of exponential profile (Freeman, 1970) in noise. Their size, inclination, angle and
brightness are random; the second one is not far from the first. The mask marks the pixels in which both are brighter
than the noise. The same seed makes the same images.
"""

from __future__ import annotations

import argparse

import numpy as np

#: Standard deviation of the noise, the unit of brightness.
NOISE = 1.0
#: Images that are made at a time, to limit the memory.
BLOCK = 256


def disc(random: np.random.Generator, count: int, grid: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Return the brightness of ``count`` galaxies.

    :param grid: coordinates of rows and columns, in pixels.
    :param centre: row and column of each centre, in pixels.
    """
    size = len(grid)
    scale = random.uniform(0.05, 0.12, count) * size
    axes = random.uniform(0.3, 1.0, count)
    angle = random.uniform(0.0, np.pi, count)
    peak = random.uniform(10.0, 40.0, count)
    rows = grid[None, :, None] - centre[:, 0, None, None]
    columns = grid[None, None, :] - centre[:, 1, None, None]
    cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    along = columns * cos + rows * sin
    across = (rows * cos - columns * sin) / axes[:, None, None]
    return peak[:, None, None] * np.exp(-np.hypot(along, across) / scale[:, None, None])


def blends(random: np.random.Generator, count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images (32-bit floats, unit noise) and masks (0 or 1, 8 bits) of two galaxies each."""
    grid = np.arange(size, dtype=np.float32)
    first = random.uniform(0.3, 0.7, (count, 2)) * size
    second = first + random.normal(0.0, 0.15, (count, 2)) * size
    left, right = disc(random, count, grid, first), disc(random, count, grid, second)
    images = left + right + random.normal(0.0, NOISE, left.shape)
    return images.astype(np.float32), ((left > NOISE) & (right > NOISE)).astype(np.uint8)


def main() -> None:
    """Make the images and write them, uncompressed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--size", type=int, default=64, help="edge in pixels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("file")
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    images = np.empty((arguments.images, arguments.size, arguments.size), np.float32)
    masks = np.empty(images.shape, np.uint8)
    for begin in range(0, arguments.images, BLOCK):
        part = slice(begin, min(begin + BLOCK, arguments.images))
        images[part], masks[part] = blends(random, part.stop - begin, arguments.size)
    np.savez(arguments.file, images=images, masks=masks)
    print(
        f"{len(images)} images, {(images.nbytes + masks.nbytes) / 1e6:.1f} MB, {masks.mean():.1%} of their area blended"
    )


if __name__ == "__main__":
    main()
