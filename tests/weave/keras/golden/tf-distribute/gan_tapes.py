"""Two networks, two optimizers, two tapes, and a penalty whose tape is not to be averaged."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers
import os
import tempfile

strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

tf.keras.utils.set_random_seed(12)
BATCH = 8
real = np.random.rand(64, 2).astype("float32")
noise = np.random.rand(64, 3).astype("float32")


def make_generator():
    return tf.keras.Sequential([layers.Dense(6, activation="relu"), layers.Dense(2)])


def make_critic():
    return tf.keras.Sequential([layers.Dense(6, activation="relu"), layers.Dense(1)])


class Trainer:
    def __init__(self):
        self.generator = make_generator()
        self.critic = make_critic()
        self.g_optimizer = tf.keras.optimizers.SGD(0.01 * strategy.num_replicas_in_sync)
        self.c_optimizer = tf.keras.optimizers.SGD(0.01 * strategy.num_replicas_in_sync)

    def penalty(self, samples):
        with tf.GradientTape() as inner:
            inner.watch(samples)
            values = self.critic(samples)
        slopes = inner.gradient(values, samples)
        return tf.reduce_mean(tf.square(slopes))

    def step(self, samples, seeds):
        with tf.GradientTape() as g_tape, tf.GradientTape() as c_tape:
            fake = self.generator(seeds)
            c_loss = tf.reduce_mean(self.critic(fake)) - tf.reduce_mean(self.critic(samples)) + self.penalty(samples)
            g_loss = -tf.reduce_mean(self.critic(fake))
            scaled_g_loss = g_loss / strategy.num_replicas_in_sync
            scaled_c_loss = c_loss / strategy.num_replicas_in_sync
        g_variables = self.generator.trainable_variables
        g_gradients = g_tape.gradient(scaled_g_loss, g_variables)
        c_gradients = c_tape.gradient(scaled_c_loss, self.critic.trainable_variables)
        self.g_optimizer.apply_gradients(zip(g_gradients, g_variables))
        self.c_optimizer.apply_gradients(zip(c_gradients, self.critic.trainable_variables))
        return g_loss, c_loss

    def distributed_step(self, *batch):
        losses = strategy.run(self.step, args=batch)
        return tuple(strategy.reduce(tf.distribute.ReduceOp.MEAN, loss, axis=None) for loss in losses)

    def train(self, dataset, epochs):
        distributed_dataset = strategy.experimental_distribute_dataset(dataset)
        for epoch in range(epochs):
            losses = []
            for samples, seeds in distributed_dataset:
                g_loss, c_loss = self.distributed_step(samples, seeds)
                losses.append(float(g_loss))
            if is_chief:
                print("epoch", epoch, "%.3f" % np.mean(losses))


dataset = tf.data.Dataset.from_tensor_slices((real, noise)).shuffle(64).batch(BATCH * strategy.num_replicas_in_sync, drop_remainder=True)
with strategy.scope():
    trainer = Trainer()
trainer.train(dataset, 2)
trainer.generator.save_weights("generator.weights.h5" if is_chief else os.path.join(tempfile.mkdtemp(), os.path.basename("generator.weights.h5")))
