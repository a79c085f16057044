"""Train a U-Net to find the overlap of galaxies, and measure the time outside of the computation.

    python galaxies.py galaxies.npz
    RUN_BEGAN=$(date +%s.%N) python unet.py galaxies.npz

D12.6 section 9.2. The images are read from the file. Three fifths of them train, one fifth validates after each epoch,
and one fifth is for the evaluation at the end. The program prints the loss of each epoch, the intersection over union
of the masks, and the largest resident memory. Then it prints the bytes that the process read and wrote, the seconds of
the computation (training and evaluation), and ``outside``. That is the wall-clock time since RUN_BEGAN, or since Python
started, less the computation. A GPU is used if there is one.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path

STARTED = time.time()

import keras  # noqa: E402 (importing counts as outside)
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers  # noqa: E402


def double_convolution(inputs, filters: int):
    """Return two 3 x 3 convolutions, each normalised and rectified."""
    features = inputs
    for _ in range(2):
        features = layers.Conv2D(filters, 3, padding="same", use_bias=False, kernel_initializer="he_normal")(features)
        features = layers.Activation("relu")(layers.BatchNormalization(momentum=0.9)(features))
    return features


def unet(size: int, filters: int, depth: int) -> keras.Model:
    """Return a U-Net: Ronneberger, Fischer, Brox, Convolutional networks for biomedical image segmentation, 2015.

    :param size: edge of the images in pixels, a multiple of ``2 ** depth``.
    :param filters: number in the first level; each level below has twice as many.
    :param depth: number of times that the resolution is halved.
    """
    inputs = layers.Input((size, size, 1))
    features, skipped = inputs, []
    for level in range(depth):
        features = double_convolution(features, filters << level)
        skipped.append(features)
        features = layers.MaxPooling2D(2)(features)
    features = double_convolution(features, filters << depth)
    for level in reversed(range(depth)):
        features = layers.Conv2DTranspose(filters << level, 2, strides=2, padding="same")(features)
        features = double_convolution(layers.Concatenate()([skipped[level], features]), filters << level)
    return keras.Model(inputs, layers.Conv2D(1, 1)(features))


def loss(masks, logits):
    """Return cross-entropy plus the Dice loss, which gives weight to the few blended pixels."""
    masks = keras.ops.cast(masks, logits.dtype)
    entropy = keras.ops.mean(keras.losses.binary_crossentropy(masks, logits, from_logits=True))
    found = keras.ops.sigmoid(logits)
    common = keras.ops.sum(masks * found)
    return entropy + 1.0 - (2.0 * common + 1.0) / (keras.ops.sum(masks) + keras.ops.sum(found) + 1.0)


def read(file: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return images (stretched by arcsinh, as in astronomy) and masks, for training, validation and evaluation."""
    with np.load(file) as data:
        images, masks = np.arcsinh(data["images"])[..., None], data["masks"][..., None]
    count = len(images)
    ends = [0, count * 3 // 5, count * 4 // 5, count]
    return [(images[begin:end], masks[begin:end]) for begin, end in zip(ends, ends[1:])]


def intersection_over_union(model: keras.Model, images: np.ndarray, masks: np.ndarray, batch: int) -> float:
    """Return the number of blended pixels both found and true, divided by those found or true."""
    found = model.predict(images, batch_size=batch, verbose=0) > 0
    return float(np.sum(found & (masks > 0)) / max(1, np.sum(found | (masks > 0))))


def transferred() -> str:
    """Return the MB that this process has read and written, caches included; or the reason if they are unknown."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError as error:
        return f"unknown: {error}"
    counts = {name: int(count) for name, count in (line.split(": ") for line in lines)}
    return f"{(counts['rchar'] + counts['wchar']) / 1e6:.1f} MB"


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8, help="images in a batch")
    parser.add_argument("--filters", type=int, default=8, help="number in the first level")
    parser.add_argument("--depth", type=int, default=3, help="levels below the first")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="all cores by default")
    parser.add_argument("file", help="output of galaxies.py")
    return parser.parse_args()


def main() -> None:
    """Read, train, evaluate, print."""
    arguments = parse()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(1)
    device = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}, {device}, {arguments.threads} threads")

    training, validation, evaluation = read(arguments.file)
    model = unet(training[0].shape[1], arguments.filters, arguments.depth)
    model.compile(keras.optimizers.Adam(3e-3), loss, jit_compile=False)
    print(f"U-Net: {model.count_params()} parameters, {len(training[0])} images to train with", flush=True)

    began = time.perf_counter()
    history = model.fit(
        *training, validation_data=validation, batch_size=arguments.batch, epochs=arguments.epochs, verbose=0
    ).history
    quality = intersection_over_union(model, *evaluation, arguments.batch)
    compute = time.perf_counter() - began

    for epoch, (trained, validated) in enumerate(zip(history["loss"], history["val_loss"]), 1):
        print(f"epoch {epoch}: loss {trained:.4f}, of the validation {validated:.4f}")
    print(f"loss falls: {'yes' if history['loss'][-1] < history['loss'][0] else 'no'}")
    print(f"intersection over union {quality:.4f}")
    print(f"memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.1f} MB")
    print(f"io {transferred()}")
    print(f"seconds compute {compute:.3f}")
    print(f"seconds outside {time.time() - float(os.environ.get('RUN_BEGAN', STARTED)) - compute:.3f}")


if __name__ == "__main__":
    main()
