"""A list and a tuple of datasets from one call, of which training takes one."""
import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(2)
x = np.random.rand(112, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)


def make_datasets(parts):
    datasets = []
    for begin, end in parts:
        datasets.append(tf.data.Dataset.from_tensor_slices((x[begin:end], y[begin:end])).batch(8))
    return datasets


def make_two():
    whole = tf.data.Dataset.from_tensor_slices((x, y))
    return whole.take(80).batch(8), whole.skip(80).batch(8)


train_ds, val_ds = make_datasets([(0, 80), (80, 112)])
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
model.fit(train_ds, epochs=2, verbose=0)
print("%.4f" % model.evaluate(val_ds, verbose=0))

both = make_two()
again = keras.Sequential([keras.layers.Dense(1)])
again.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
again.fit(both[0], validation_data=both[1], epochs=2, verbose=0)
print("%.4f" % again.evaluate(both[1], verbose=0))
