"""A tf.data pipeline that is split by take and skip, mapped and batched in functions; steps_per_epoch with repeat."""
import numpy as np
import tensorflow as tf
import horovod.tensorflow.keras as hvd


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

tf.keras.utils.set_random_seed(4)
AUTOTUNE = tf.data.AUTOTUNE
features = np.random.rand(120, 6).astype("float32")
targets = (features.mean(axis=1) > 0.5).astype("int64")


def load():
    whole = tf.data.Dataset.from_tensor_slices((features, targets))
    return shard(whole.take(96)), whole.skip(96)


def scale(x, y):
    return x * 2.0 - 1.0, y


def prepare(ds, training=False):
    ds = ds.map(scale, num_parallel_calls=AUTOTUNE).cache()
    if training:
        ds = ds.shuffle(96).repeat()
    return ds.batch(8).prefetch(AUTOTUNE)


train_raw, test_raw = load()
train_ds = prepare(train_raw, training=True)
test_ds = prepare(test_raw)
model = tf.keras.Sequential([
    tf.keras.layers.Dense(10, activation="relu"),
    tf.keras.layers.Dense(2),
])
model.compile(
    optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(learning_rate=0.01 * hvd.size())),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train_ds, epochs=3, steps_per_epoch=12 // hvd.size(), validation_data=test_ds, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("test", model.evaluate(test_ds, verbose=0))
