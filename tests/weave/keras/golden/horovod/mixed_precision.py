"""Mixed precision by a policy; the functional interface with two inputs in a dictionary and sample weights."""
# keras 2: LossScaleOptimizer of Keras 3.15 fails under tf.distribute (TypeError: Expected float32, but got out of type str)
# not equal: half precision
# other output: half precision
import numpy as np
from tensorflow import keras
import horovod.tensorflow.keras as hvd
import tensorflow as tf


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

keras.utils.set_random_seed(3)
keras.mixed_precision.set_global_policy("mixed_float16")
a = keras.Input((3,), name="a")
b = keras.Input((2,), name="b")
joined = keras.layers.concatenate([keras.layers.Dense(4)(a), keras.layers.Dense(4)(b)])
out = keras.layers.Dense(1, dtype="float32", name="out")(joined)
model = keras.Model(inputs=[a, b], outputs=out)
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(learning_rate=0.01 * hvd.size())), loss={"out": "mse"})
first = np.random.rand(48, 3).astype("float32")
second = np.random.rand(48, 2).astype("float32")
target = first.sum(axis=1) - second.sum(axis=1)
weights = np.ones(48)
model.fit({"a": share(first), "b": share(second)}, {"out": share(target)}, sample_weight=share(weights), batch_size=8, epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("loss", model.evaluate([first, second], target, verbose=0))
    model.save("mixed.h5")
