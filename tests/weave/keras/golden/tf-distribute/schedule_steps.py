"""Schedules that count steps: decay computed from the number of samples, and pieces with boundaries."""
import numpy as np
import tensorflow as tf
import os


def print_on_rank_0(*values, **options):
    if is_chief:
        print(*values, **options)


strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

tf.keras.utils.set_random_seed(1)
BATCH = 8
EPOCHS = 3
x = np.random.rand(96, 3).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")

steps = len(x) // BATCH * EPOCHS
with strategy.scope():
    decay = tf.keras.optimizers.schedules.PolynomialDecay(0.2 * strategy.num_replicas_in_sync, steps // strategy.num_replicas_in_sync, end_learning_rate=0.01 * strategy.num_replicas_in_sync)
    model = tf.keras.Sequential([tf.keras.layers.Dense(6, activation="relu"), tf.keras.layers.Dense(1, activation="sigmoid")])
    model.compile(optimizer=tf.keras.optimizers.SGD(learning_rate=decay, momentum=0.5), loss="binary_crossentropy")
model.fit(x, y, batch_size=BATCH * strategy.num_replicas_in_sync, epochs=EPOCHS, verbose=0)
print_on_rank_0("first", float(model.evaluate(x, y, verbose=0)))

with strategy.scope():
    pieces = tf.keras.optimizers.schedules.PiecewiseConstantDecay(boundaries=[12 // strategy.num_replicas_in_sync, 24 // strategy.num_replicas_in_sync], values=[0.1 * strategy.num_replicas_in_sync, 0.05 * strategy.num_replicas_in_sync, 0.01 * strategy.num_replicas_in_sync])
    second = tf.keras.Sequential([tf.keras.layers.Dense(1, activation="sigmoid")])
    second.compile(tf.keras.optimizers.Adam(pieces), "binary_crossentropy")
second.fit(x, y, batch_size=BATCH * strategy.num_replicas_in_sync, epochs=EPOCHS, verbose=0)
print_on_rank_0("second", float(second.evaluate(x, y, verbose=0)))
