"""TensorFlow 1: a session with a configuration, Keras on it."""
# keras 2: sessions and backend.set_session are gone from Keras 3
# not verified for horovod: the stand-in of Horovod does not compute in sessions
# other output: Horovod averages the figures of an epoch, which TensorFlow 1 rounds
import numpy as np
import tensorflow.compat.v1 as tf
import horovod.tensorflow.keras as hvd


def share(values):
    # The same number of samples for each process; the remainder is left out.
    whole = len(values) // hvd.size() * hvd.size()
    return values[hvd.rank():whole:hvd.size()]


hvd.init()

tf.disable_v2_behavior()
tf.set_random_seed(1)
np.random.seed(1)
config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())
config.intra_op_parallelism_threads = 1
session = tf.Session(config=config)
tf.keras.backend.set_session(session)

x = np.random.rand(64, 4).astype("float32")
y = x.sum(axis=1)
model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(4,))])
model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(lr=0.05 * hvd.size())), loss="mse")
model.fit(share(x), share(y), batch_size=8, epochs=3, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("loss", model.evaluate(x, y, verbose=0))
