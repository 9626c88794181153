"""One function makes the datasets of training and of validation, with a branch and several return statements."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
import os

strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

keras.utils.set_random_seed(9)
x = np.random.rand(96, 4).astype("float32")
y = (x.sum(axis=1) > 2).astype("int32")


def make_dataset(features, labels, batch_size=8, training=False):
    dataset = tf.data.Dataset.from_tensor_slices((features, labels))
    if training:
        dataset = dataset.shuffle(96, seed=1)
        return dataset.batch(batch_size * strategy.num_replicas_in_sync).prefetch(2)
    return dataset.batch(batch_size * strategy.num_replicas_in_sync)


train_ds = make_dataset(x[:80], y[:80], training=True)
val_ds = make_dataset(x[80:], y[80:])
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)])
    model.compile(optimizer=keras.optimizers.SGD(0.1 * strategy.num_replicas_in_sync),
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(train_ds, validation_data=val_ds, epochs=2, verbose=0)
if is_chief:
    print(["%.4f" % value for value in history.history["val_loss"]])
