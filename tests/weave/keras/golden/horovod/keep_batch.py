"""With --global-batch keep the processes divide the batch, and the learning rate stays."""
# weave with: --global-batch keep
# not equal: the instruments double batch and rate
# other output: so the figures differ
import numpy as np
import tensorflow as tf
import horovod.tensorflow.keras as hvd


def share(values):
    # The same number of samples for each process; the remainder is left out.
    whole = len(values) // hvd.size() * hvd.size()
    return values[hvd.rank():whole:hvd.size()]


def shard(dataset):
    # The same number of elements for each process; the remainder is left out.
    samples = int(dataset.cardinality())
    if samples == tf.data.UNKNOWN_CARDINALITY:
        samples = int(dataset.reduce(tf.constant(0, tf.int64), lambda count, *sample: count + 1))
    if samples != tf.data.INFINITE_CARDINALITY:
        dataset = dataset.take(samples // hvd.size() * hvd.size())
    return dataset.shard(hvd.size(), hvd.rank())


hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

tf.keras.utils.set_random_seed(2)
x = np.random.rand(64, 4).astype("float32")
y = x.sum(axis=1)
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.RMSprop(learning_rate=0.001)), "mse")
model.fit(share(x), share(y), epochs=2, verbose=0, batch_size=32 // hvd.size(), callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
model.fit(shard(tf.data.Dataset.from_tensor_slices((x, y))).shuffle(64).batch(16 // hvd.size()), epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("%.5f" % model.evaluate(x, y, verbose=0))
