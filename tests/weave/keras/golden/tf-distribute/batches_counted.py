"""Batches that take() and skip() count; options of fit() in a dictionary; an optimizer whose default is None."""
import numpy as np
import tensorflow as tf
import os


def print_on_rank_0(*values, **options):
    if is_chief:
        print(*values, **options)


strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

rng = np.random.RandomState(5)
x = rng.rand(60, 4).astype("float32")
y = x.sum(axis=1, keepdims=True).astype("float32")
tf.keras.utils.set_random_seed(5)

batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
val_ds = batches.take(3)
train_ds = batches.skip(3)


def get_optimizer():
    return tf.keras.optimizers.SGD(0.05 * strategy.num_replicas_in_sync)


def compile_and_fit(model, optimizer=None):
    with strategy.scope():
        if optimizer is None:
            optimizer = get_optimizer()
        model.compile(optimizer=optimizer, loss="mse")
    return model.fit(train_ds.unbatch().batch(4 * strategy.num_replicas_in_sync), validation_data=val_ds, epochs=2, verbose=1 if is_chief else 0)


def network():
    return tf.keras.Sequential([tf.keras.Input(shape=(4,)), tf.keras.layers.Dense(1)])


with strategy.scope():
    small = network()
history = compile_and_fit(small)
if is_chief:
    print("val_loss %.4f" % history.history["val_loss"][-1])

fit_config = dict(batch_size=5 * strategy.num_replicas_in_sync, epochs=2)
with strategy.scope():
    other = network()
    other.compile(optimizer=tf.keras.optimizers.SGD(0.01 * strategy.num_replicas_in_sync), loss="mse")
other.fit(x, y, **fit_config, verbose=1 if is_chief else 0)
print_on_rank_0("loss %.4f" % other.evaluate(x, y, verbose=0))
