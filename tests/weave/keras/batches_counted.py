"""Batches that take() and skip() count; options of fit() in a dictionary; an optimizer whose default is None."""
import numpy as np
import tensorflow as tf

rng = np.random.RandomState(5)
x = rng.rand(60, 4).astype("float32")
y = x.sum(axis=1, keepdims=True).astype("float32")
tf.keras.utils.set_random_seed(5)

batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
val_ds = batches.take(3)
train_ds = batches.skip(3)


def get_optimizer():
    return tf.keras.optimizers.SGD(0.05)


def compile_and_fit(model, optimizer=None):
    if optimizer is None:
        optimizer = get_optimizer()
    model.compile(optimizer=optimizer, loss="mse")
    return model.fit(train_ds, validation_data=val_ds, epochs=2)


def network():
    return tf.keras.Sequential([tf.keras.Input(shape=(4,)), tf.keras.layers.Dense(1)])


small = network()
history = compile_and_fit(small)
print("val_loss %.4f" % history.history["val_loss"][-1])

fit_config = dict(batch_size=5, epochs=2)
other = network()
other.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss="mse")
other.fit(x, y, **fit_config)
print("loss %.4f" % other.evaluate(x, y, verbose=0))
