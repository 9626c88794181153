"""Arrays that TensorFlow draws without a seed: all processes must have the same, of which each takes its share."""
import tensorflow as tf
import horovod.tensorflow.keras as hvd


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
tf.random.set_seed(0)

x = tf.random.normal(shape=[48, 2])
y = tf.reduce_sum(x, axis=1, keepdims=True) + 0.1 * tf.random.normal(shape=[48, 1])
model = tf.keras.Sequential([tf.keras.Input(shape=(2,)), tf.keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.05 * hvd.size())), loss="mse")
model.fit(share(x), share(y), batch_size=6, epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("mse %.4f" % model.evaluate(x, y, verbose=0))
