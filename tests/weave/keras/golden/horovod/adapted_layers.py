"""Preprocessing layers that adapt() to the data of training, as a dataset and as arrays: every process must see all of them."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
import horovod.tensorflow.keras as hvd


def shard(dataset):
    # The same number of elements for each process; the remainder is left out.
    samples = int(dataset.cardinality())
    if samples == tf.data.UNKNOWN_CARDINALITY:
        samples = int(dataset.reduce(tf.constant(0, tf.int64), lambda count, *sample: count + 1))
    if samples != tf.data.INFINITE_CARDINALITY:
        dataset = dataset.take(samples // hvd.size() * hvd.size())
    return dataset.shard(hvd.size(), hvd.rank())


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

keras.utils.set_random_seed(5)
words = np.array(["red", "green", "blue", "grey", "pink", "black", "white", "brown"])
texts = np.array([" ".join(words[np.random.randint(0, 8, 4)]) for _ in range(64)])
numbers = np.random.rand(64, 3).astype("float32") * np.arange(1, 65, dtype="float32")[:, None]
labels = (numbers[:, 0] > numbers[:, 1]).astype("float32").reshape(-1, 1)

train_ds = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(8)
vectorize = keras.layers.TextVectorization(max_tokens=12, output_mode="multi_hot")
vectorize.adapt(train_ds.map(lambda text, label: text))
if hvd.rank() == 0:
    print(len(vectorize.get_vocabulary()))

model = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1 * hvd.size())), loss="mse")
model.fit(shard(train_ds.map(lambda text, label: (vectorize(text), label))), epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])

normalize = keras.layers.Normalization()
normalize.adapt(numbers)
scaled = keras.Sequential([keras.Input(shape=(3,)), normalize, keras.layers.Dense(1)])
scaled.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size())), loss="mse")
scaled.fit(share(numbers), share(labels), batch_size=8, epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("%.4f" % scaled.evaluate(numbers, labels, verbose=0))
