"""Models with their own compile(): it hands the optimizer on by name, by **, or keeps two optimizers for its train_step."""
# other output: Horovod sends rank 0's metrics with its variables after the first batch
import numpy as np
import tensorflow as tf
from tensorflow import keras
import os


def mean_of_replicas(value):
    # fit() takes the mean over the replicas; before Keras 3, it adds the values up.
    return value if int(tf.keras.__version__.split(".")[0]) >= 3 else value / strategy.num_replicas_in_sync


strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

keras.utils.set_random_seed(21)
x = np.random.rand(96, 6).astype("float32")
y = x.sum(axis=1, keepdims=True)


class ByName(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def compile(self, rate_of, loss_of="mse"):
        super().compile(optimizer=rate_of, loss=loss_of)

    def call(self, inputs):
        return self.dense(inputs)


class HandedOn(ByName):
    def compile(self, penalty, **options):
        super(ByName, self).compile(**options)
        self.penalty = penalty


class Pair(keras.Model):
    def __init__(self, first, second):
        super().__init__()
        self.first = first
        self.second = second
        self.first_loss = keras.metrics.Mean(name="first_loss")

    def compile(self, first_optimizer, second_optimizer, loss_fn):
        super().compile()
        self.first_optimizer = first_optimizer
        self.second_optimizer = second_optimizer
        self.loss_fn = loss_fn

    def call(self, inputs):
        return self.second(self.first(inputs))

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape() as tape:
            first_loss = tf.reduce_mean(tf.square(self.first(inputs) - inputs[:, :3]))
            scaled_first_loss = first_loss / strategy.num_replicas_in_sync
        gradients = tape.gradient(scaled_first_loss, self.first.trainable_variables)
        self.first_optimizer.apply_gradients(zip(gradients, self.first.trainable_variables))
        with tf.GradientTape() as second_tape:
            second_loss = tf.reduce_mean(self.loss_fn(targets, self.second(self.first(inputs))))
            scaled_second_loss = second_loss / strategy.num_replicas_in_sync
        gradients = second_tape.gradient(scaled_second_loss, self.second.trainable_variables)
        self.second_optimizer.apply_gradients(zip(gradients, self.second.trainable_variables))
        self.first_loss.update_state(first_loss)
        return {"first_loss": self.first_loss.result(), "second_loss": mean_of_replicas(second_loss)}

    @property
    def metrics(self):
        return [self.first_loss]


with strategy.scope():
    by_name = ByName()
    by_name.compile(keras.optimizers.SGD(0.05 * strategy.num_replicas_in_sync))
by_name.fit(x, y, batch_size=8 * strategy.num_replicas_in_sync, epochs=2, verbose=0)

with strategy.scope():
    handed_on = HandedOn()
    handed_on.compile(0.1, optimizer=tf.keras.optimizers.SGD(learning_rate=0.01 * strategy.num_replicas_in_sync), loss="mse")
handed_on.fit(x, y, batch_size=8 * strategy.num_replicas_in_sync, epochs=2, verbose=0)

with strategy.scope():
    first = keras.Sequential([keras.Input(shape=(6,)), keras.layers.Dense(3)])
    second = keras.Sequential([keras.Input(shape=(3,)), keras.layers.Dense(1)])
    pair = Pair(first, second)
    pair.compile(keras.optimizers.SGD(0.02 * strategy.num_replicas_in_sync), keras.optimizers.SGD(learning_rate=0.01 * strategy.num_replicas_in_sync), keras.losses.MeanSquaredError(reduction="none"))
history = pair.fit(x, y, batch_size=8 * strategy.num_replicas_in_sync, epochs=2, verbose=0)
if is_chief:
    print(["%.4f" % value for value in history.history["first_loss"]])
