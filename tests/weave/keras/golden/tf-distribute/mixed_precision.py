"""Mixed precision by a policy; the functional interface with two inputs in a dictionary and sample weights."""
# keras 2: LossScaleOptimizer of Keras 3.15 fails under tf.distribute (TypeError: Expected float32, but got out of type str)
# not equal: half precision
# other output: half precision
import numpy as np
from tensorflow import keras
import os
import tempfile
import tensorflow as tf


def print_on_rank_0(*values, **options):
    if is_chief:
        print(*values, **options)


strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

keras.utils.set_random_seed(3)
keras.mixed_precision.set_global_policy("mixed_float16")
with strategy.scope():
    a = keras.Input((3,), name="a")
    b = keras.Input((2,), name="b")
    joined = keras.layers.concatenate([keras.layers.Dense(4)(a), keras.layers.Dense(4)(b)])
    out = keras.layers.Dense(1, dtype="float32", name="out")(joined)
    model = keras.Model(inputs=[a, b], outputs=out)
    model.compile(optimizer=keras.optimizers.Adam(learning_rate=0.01 * strategy.num_replicas_in_sync), loss={"out": "mse"})
first = np.random.rand(48, 3).astype("float32")
second = np.random.rand(48, 2).astype("float32")
target = first.sum(axis=1) - second.sum(axis=1)
weights = np.ones(48)
model.fit({"a": first, "b": second}, {"out": target}, sample_weight=weights, batch_size=8 * strategy.num_replicas_in_sync, epochs=2, verbose=0)
print_on_rank_0("loss", model.evaluate([first, second], target, verbose=0))
model.save("mixed.h5" if is_chief else os.path.join(tempfile.mkdtemp(), os.path.basename("mixed.h5")))
