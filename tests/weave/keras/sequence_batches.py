"""A Sequence that shuffles itself, a generator with steps_per_epoch, an ImageDataGenerator."""
# keras 2 for horovod: Keras 3 takes no iterator of itertools; Horovod does not know Keras 3
# not equal: which batches meet in a step is the Sequence's and the generator's affair
# other output: so the figures differ
import numpy as np
import tensorflow as tf
from tensorflow.keras.preprocessing.image import ImageDataGenerator
from tensorflow.keras.utils import Sequence

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
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="binary_crossentropy")
model.fit(Batches(x, y, 8), epochs=2, verbose=0)
model.fit(generate(8), steps_per_epoch=8, epochs=2, verbose=0)
augmented = ImageDataGenerator(horizontal_flip=True)
model.fit(augmented.flow(x, y, batch_size=8), epochs=2, verbose=0)
print("trained")
