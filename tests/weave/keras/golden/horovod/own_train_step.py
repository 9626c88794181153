"""A subclassed model with a train_step of its own, fitted."""
# other output: Horovod sends rank 0's metrics with its variables after the first batch
import numpy as np
import tensorflow as tf
from tensorflow import keras
import horovod.tensorflow as hvd_tf
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


class Custom(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            prediction = self(x, training=True)
            loss = tf.reduce_mean(tf.square(tf.reshape(y, (-1, 1)) - prediction))
        tape = hvd_tf.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    @property
    def metrics(self):
        return [self.loss_tracker]


keras.utils.set_random_seed(11)
x = np.random.rand(80, 5).astype("float32")
y = x.sum(axis=1)
model = Custom()
model.compile(optimizer=keras.optimizers.SGD(0.05 * hvd.size()))
history = model.fit(share(x), share(y), batch_size=10, epochs=3, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print(["%.4f" % value for value in history.history["loss"]])
