"""Images of a folder by flow_from_directory(), of which one batch is looked at; a schedule without a get_config()."""
# text only: its files would have to be in the folders of all ranks
import os

import numpy as np
import tensorflow as tf
from tensorflow.keras.preprocessing.image import ImageDataGenerator
import copy
import horovod.tensorflow.keras as hvd


class SharedFiles(tf.keras.utils.Sequence):
    # Each process takes its own files, the same number for each, in an order of its own.

    def __init__(self, whole):
        super().__init__()
        self.whole = copy.copy(whole)
        self.files = np.arange(hvd.rank(), whole.n // hvd.size() * hvd.size(), hvd.size())
        self.on_epoch_end()

    def __len__(self):
        return -(-len(self.files) // self.whole.batch_size)

    def __getitem__(self, index):
        return self.whole[index]

    def on_epoch_end(self):
        self.whole.index_array = np.random.permutation(self.files) if self.whole.shuffle else self.files


hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

folder = "images"
images = np.random.RandomState(2).randint(0, 255, (24, 6, 6, 3)).astype("uint8")
for kind in ("train", "test"):
    for i in range(24 if kind == "train" else 8):
        path = os.path.join(folder, kind, "dark" if i % 2 else "light")
        os.makedirs(path, exist_ok=True)
        if hvd.rank() == 0:
            tf.io.write_file(os.path.join(path, "%02d.png" % i), tf.io.encode_png(images[i] // (1 + i % 2)))

generator = ImageDataGenerator(rescale=1.0 / 255)
hvd.allreduce(0.0, name="barrier")
train_data = generator.flow_from_directory(os.path.join(folder, "train"), target_size=(6, 6), batch_size=4, class_mode="binary")
hvd.allreduce(0.0, name="barrier")
test_data = ImageDataGenerator(rescale=1.0 / 255).flow_from_directory(
    os.path.join(folder, "test"), target_size=(6, 6), batch_size=4, class_mode="binary", shuffle=False)
for images_seen, labels_seen in train_data:
    if hvd.rank() == 0:
        print(images_seen.shape, labels_seen.shape)
    break


@tf.keras.utils.register_keras_serializable()
class WarmUp(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, rate, steps=4.0):
        self.rate = rate
        self.steps = steps

    def __call__(self, step):
        step = step * hvd.size()
        return (self.rate * tf.minimum((tf.cast(step, tf.float32) + 1.0) / self.steps, 1.0)) * hvd.size()

    def get_config(self):
        return {"rate": self.rate, "steps": self.steps}


model = tf.keras.Sequential([tf.keras.Input(shape=(6, 6, 3)), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(WarmUp(0.01))), loss=tf.keras.losses.BinaryCrossentropy(from_logits=True))
model.fit(SharedFiles(train_data), steps_per_epoch=(train_data.n // 4) // hvd.size(), epochs=2, validation_data=test_data, verbose=1 if hvd.rank() == 0 else 0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
