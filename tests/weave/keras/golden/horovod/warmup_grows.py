"""The learning rate grows over the first epochs."""
# keras 2 for horovod: keras.backend.get_value is gone from Keras 3, which Horovod does not know
# weave with: --warmup 2
# not equal: the original does not warm up
# other output: so its figures differ
import keras
import numpy as np
from keras import layers
import horovod.keras as hvd
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

keras.utils.set_random_seed(2)
x = np.random.rand(96, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = keras.Sequential([layers.Dense(8, activation="tanh", input_shape=(4,)), layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.05 * hvd.size(), momentum=0.9)
model.compile(optimizer=hvd.DistributedOptimizer(optimizer), loss="mse")
model.fit(share(x), share(y), 16, 4, 0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), hvd.callbacks.LearningRateWarmupCallback(initial_lr=float(keras.backend.get_value(model.optimizer.learning_rate)), warmup_epochs=2, momentum_correction=False)])
if hvd.rank() == 0:
    print("loss", model.evaluate(x, y, verbose=0))
