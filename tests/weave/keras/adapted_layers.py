"""Preprocessing layers that adapt() to the data of training, as a dataset and as arrays: every process must see all of them."""
import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(5)
words = np.array(["red", "green", "blue", "grey", "pink", "black", "white", "brown"])
texts = np.array([" ".join(words[np.random.randint(0, 8, 4)]) for _ in range(64)])
numbers = np.random.rand(64, 3).astype("float32") * np.arange(1, 65, dtype="float32")[:, None]
labels = (numbers[:, 0] > numbers[:, 1]).astype("float32").reshape(-1, 1)

train_ds = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(8)
vectorize = keras.layers.TextVectorization(max_tokens=12, output_mode="multi_hot")
vectorize.adapt(train_ds.map(lambda text, label: text))
print(len(vectorize.get_vocabulary()))

model = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
model.fit(train_ds.map(lambda text, label: (vectorize(text), label)), epochs=2, verbose=0)

normalize = keras.layers.Normalization()
normalize.adapt(numbers)
scaled = keras.Sequential([keras.Input(shape=(3,)), normalize, keras.layers.Dense(1)])
scaled.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
scaled.fit(numbers, labels, batch_size=8, epochs=2, verbose=0)
print("%.4f" % scaled.evaluate(numbers, labels, verbose=0))
