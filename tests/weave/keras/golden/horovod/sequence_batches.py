"""A Sequence that shuffles itself, a generator with steps_per_epoch, an ImageDataGenerator."""
# keras 2 for horovod: Keras 3 takes no iterator of itertools; Horovod does not know Keras 3
# not equal: which batches meet in a step is the Sequence's and the generator's affair
# other output: so the figures differ
import numpy as np
import tensorflow as tf
from tensorflow.keras.preprocessing.image import ImageDataGenerator
from tensorflow.keras.utils import Sequence
import horovod.tensorflow.keras as hvd
import itertools


class SharedSequence(Sequence):
    # Each process takes different batches, the same number for each.

    def __init__(self, whole):
        self.whole = whole

    def __len__(self):
        return len(self.whole) // hvd.size()

    def __getitem__(self, index):
        return self.whole[index * hvd.size() + hvd.rank()]

    def on_epoch_end(self):
        self.whole.on_epoch_end()


def share(values):
    # The same number of samples for each process; the remainder is left out.
    whole = len(values) // hvd.size() * hvd.size()
    return values[hvd.rank():whole:hvd.size()]


hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

tf.keras.utils.set_random_seed(0)
x = np.random.rand(64, 8, 8, 1).astype("float32")
y = (x.mean(axis=(1, 2, 3)) > 0.5).astype("float32")


class Batches(Sequence):
    def __init__(self, x, y, size):
        self.x, self.y, self.size = x, y, size
        self.order = np.arange(len(x))

    def __len__(self):
        return len(self.x) // self.size

    def __getitem__(self, index):
        chosen = self.order[index * self.size:(index + 1) * self.size]
        return self.x[chosen], self.y[chosen]

    def on_epoch_end(self):
        np.random.shuffle(self.order)


def generate(size):
    while True:
        start = np.random.randint(0, len(x) - size)
        yield x[start:start + size], y[start:start + size]


model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(1, activation="sigmoid")])
model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(1e-3 * hvd.size())), loss="binary_crossentropy")
model.fit(SharedSequence(Batches(x, y, 8)), epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
model.fit(itertools.islice(generate(8), hvd.rank(), None, hvd.size()), steps_per_epoch=8 // hvd.size(), epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
augmented = ImageDataGenerator(horizontal_flip=True)
model.fit(augmented.flow(share(x), share(y), batch_size=8), epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("trained")
