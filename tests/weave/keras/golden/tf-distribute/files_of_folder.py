"""Images of a folder by flow_from_directory(), of which one batch is looked at; a schedule without a get_config()."""
# text only: its files would have to be in the folders of all ranks
import os

import numpy as np
import tensorflow as tf
from tensorflow.keras.preprocessing.image import ImageDataGenerator
import copy


def larger_batches(images):
    # The same images, in batches for all replicas together.
    larger = copy.copy(images)
    larger.batch_size *= strategy.num_replicas_in_sync
    return larger


if "TF_CONFIG" in os.environ:
    raise SystemExit("images of an ImageDataGenerator can be distributed on one host only")
strategy = tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

folder = "images"
images = np.random.RandomState(2).randint(0, 255, (24, 6, 6, 3)).astype("uint8")
for kind in ("train", "test"):
    for i in range(24 if kind == "train" else 8):
        path = os.path.join(folder, kind, "dark" if i % 2 else "light")
        os.makedirs(path, exist_ok=True)
        if is_chief:
            tf.io.write_file(os.path.join(path, "%02d.png" % i), tf.io.encode_png(images[i] // (1 + i % 2)))

generator = ImageDataGenerator(rescale=1.0 / 255)
train_data = generator.flow_from_directory(os.path.join(folder, "train"), target_size=(6, 6), batch_size=4, class_mode="binary")
test_data = ImageDataGenerator(rescale=1.0 / 255).flow_from_directory(
    os.path.join(folder, "test"), target_size=(6, 6), batch_size=4, class_mode="binary", shuffle=False)
for images_seen, labels_seen in train_data:
    if is_chief:
        print(images_seen.shape, labels_seen.shape)
    break


class WarmUp(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, rate, steps=4.0):
        self.rate = rate
        self.steps = steps

    def __call__(self, step):
        step = step * strategy.num_replicas_in_sync
        return (self.rate * tf.minimum((tf.cast(step, tf.float32) + 1.0) / self.steps, 1.0)) * strategy.num_replicas_in_sync


with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input(shape=(6, 6, 3)), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(WarmUp(0.01)), loss=tf.keras.losses.BinaryCrossentropy(from_logits=True))
model.fit(larger_batches(train_data), steps_per_epoch=(train_data.n // 4) // strategy.num_replicas_in_sync, epochs=2, validation_data=test_data, verbose=1 if is_chief else 0)
