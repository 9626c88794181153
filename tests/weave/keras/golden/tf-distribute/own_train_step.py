"""A subclassed model with a train_step of its own, fitted."""
# other output: Horovod sends rank 0's metrics with its variables after the first batch
import numpy as np
import tensorflow as tf
from tensorflow import keras
import os

strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0


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
            scaled_loss = loss / strategy.num_replicas_in_sync
        gradients = tape.gradient(scaled_loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    @property
    def metrics(self):
        return [self.loss_tracker]


keras.utils.set_random_seed(11)
x = np.random.rand(80, 5).astype("float32")
y = x.sum(axis=1)
with strategy.scope():
    model = Custom()
    model.compile(optimizer=keras.optimizers.SGD(0.05 * strategy.num_replicas_in_sync))
history = model.fit(x, y, batch_size=10 * strategy.num_replicas_in_sync, epochs=3, verbose=0)
if is_chief:
    print(["%.4f" % value for value in history.history["loss"]])
