"""Times training steps inside Keras `fit`: the time of an epoch over arrays in memory, divided by its steps.

    python keras_steps.py [--threads 2] [--settings fit] mlp32 mlp128 convnet

The first epochs (tracing, compilation) are not counted. The settings are the default, compilation with
XLA, and many steps per call of the runtime. Prints one JSON object per line.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from timing import print_environment, print_times

BATCHES = {"mlp32": 32, "mlp128": 128, "convnet": 64}
SHAPES = {"mlp32": (784,), "mlp128": (784,), "convnet": (28, 28, 1)}
STEPS = {"mlp32": 200, "mlp128": 200, "convnet": 20}  # of an epoch
SETTINGS = {
    "fit": {},
    "fit, jit_compile": {"jit_compile": True},
    "fit, steps_per_execution=50": {"steps_per_execution": 50},
    "fit, jit_compile, steps_per_execution=50": {"jit_compile": True, "steps_per_execution": 50},
}


class EpochTimes(tf.keras.callbacks.Callback):
    """Milliseconds per step, for each epoch."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps
        self.times = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.times.append(1e3 * (time.perf_counter() - self.start) / self.steps)


def layers(workload):
    make = tf.keras.layers
    if workload == "convnet":  # the demo's, as in torch_models.py
        return [
            make.Conv2D(32, 3, padding="same", activation="relu"), make.MaxPooling2D(),
            make.Conv2D(64, 3, padding="same", activation="relu"), make.MaxPooling2D(),
            make.Flatten(), make.Dense(128, activation="relu"), make.Dropout(0.25), make.Dense(10),
        ]
    return [make.Dense(256, activation="relu"), make.Dense(256, activation="relu"), make.Dense(10)]


def make_model(workload, options):
    model = tf.keras.Sequential([tf.keras.layers.Input(SHAPES[workload]), *layers(workload)])
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3),
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  **options)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", choices=BATCHES, metavar="WORKLOAD")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10, help="number of epochs counted, after two that are not counted")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="SETTING")
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    print_environment("keras", f"{tf.keras.__version__} on tensorflow {tf.__version__}", arguments.threads)
    random = np.random.default_rng(1)
    for workload in arguments.workloads:
        batch = BATCHES[workload]
        steps = STEPS[workload]
        x = random.standard_normal((batch * steps, *SHAPES[workload]), dtype=np.float32)
        y = random.integers(0, 10, batch * steps)
        for setting in arguments.settings:
            tf.keras.utils.set_random_seed(1)
            times = EpochTimes(steps)
            make_model(workload, SETTINGS[setting]).fit(x, y, batch_size=batch, epochs=arguments.epochs + 2, verbose=0,
                                    callbacks=[times])
            print_times("keras", workload, setting, times.times[2:])


if __name__ == "__main__":
    main()
