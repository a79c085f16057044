"""Train a convolutional network on synthetic ImageNet data, and print images per second (D12.6 section 7.3).

    python cnn.py --network AlexNet --batch 32 --steps 1 --repeats 3

The data are one batch of random images. The batch stays in memory, so that only the network counts. A first batch,
which builds the graph, is not timed. Then each repetition trains ``--steps`` batches and prints its rate. At the end
the program prints the loss of the first and of the last batch. It is the same batch, so the loss must fall.
"""

from __future__ import annotations

import argparse
import os
import time

# Its standard error must stay: TensorFlow names there the instructions of the machine that it does not use.
import keras
import tensorflow as tf
from networks import CLASSES, SIZES, network


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=SIZES, default="AlexNet")
    parser.add_argument("--batch", type=int, default=32, help="images in a batch")
    parser.add_argument("--steps", type=int, default=1, help="batches in a repetition")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="all cores by default")
    return parser.parse_args()


def main() -> None:
    """Train, measure, print."""
    arguments = parse()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(1)
    device = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}, {device}, {arguments.threads} threads")

    model = network(arguments.network)
    model.compile(
        # The rate is small enough for every network to learn this batch from the first step.
        optimizer=keras.optimizers.SGD(1e-3, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    size = SIZES[arguments.network]
    print(f"{arguments.network}: {model.count_params()} parameters, {arguments.batch} images of {size} x {size}")
    images = tf.random.uniform((arguments.batch, size, size, 3), -1.0, 1.0, seed=1)
    labels = tf.random.uniform((arguments.batch,), 0, CLASSES, tf.int32, seed=2)

    def train() -> float:
        # Keras returns the mean since the last reset.
        model.reset_metrics()
        return float(model.train_on_batch(images, labels))

    losses = [train()]
    for _ in range(arguments.repeats):
        began = time.perf_counter()
        for _ in range(arguments.steps):
            losses.append(train())
        seconds = time.perf_counter() - began
        print(f"images/s {arguments.batch * arguments.steps / seconds:.3f}", flush=True)
    print(f"loss of the first batch {losses[0]:.4f}")
    print(f"loss of the last batch {losses[-1]:.4f}")
    print(f"loss falls: {'yes' if losses[-1] < losses[0] else 'no'}")


if __name__ == "__main__":
    main()
