"""Two networks, two optimizers, two tapes, and a penalty whose tape is not to be averaged."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers
import horovod.tensorflow as hvd


def shard(dataset):
    # The same number of elements for each process; the remainder is left out.
    samples = int(dataset.cardinality())
    if samples == tf.data.UNKNOWN_CARDINALITY:
        samples = int(dataset.reduce(tf.constant(0, tf.int64), lambda count, *sample: count + 1))
    if samples != tf.data.INFINITE_CARDINALITY:
        dataset = dataset.take(samples // hvd.size() * hvd.size())
    return dataset.shard(hvd.size(), hvd.rank())


def gather_over_ranks(values):
    return [value for part in hvd.allgather_object(list(values)) for value in part]


hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

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
        self.g_optimizer = tf.keras.optimizers.SGD(0.01 * hvd.size())
        self.c_optimizer = tf.keras.optimizers.SGD(0.01 * hvd.size())

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
        g_tape = hvd.DistributedGradientTape(g_tape)
        c_tape = hvd.DistributedGradientTape(c_tape)
        g_variables = self.generator.trainable_variables
        g_gradients = g_tape.gradient(g_loss, g_variables)
        c_gradients = c_tape.gradient(c_loss, self.critic.trainable_variables)
        self.g_optimizer.apply_gradients(zip(g_gradients, g_variables))
        self.c_optimizer.apply_gradients(zip(c_gradients, self.critic.trainable_variables))
        return g_loss, c_loss

    def train(self, dataset, epochs):
        for epoch in range(epochs):
            losses = []
            for samples, seeds in dataset:
                g_loss, c_loss = self.step(samples, seeds)
                if self.g_optimizer.iterations == 1:
                    hvd.broadcast_variables(self.generator.variables, root_rank=0)
                    hvd.broadcast_variables(self.critic.variables, root_rank=0)
                    hvd.broadcast_variables(self.g_optimizer.variables(), root_rank=0)
                    hvd.broadcast_variables(self.c_optimizer.variables(), root_rank=0)
                losses.append(float(g_loss))
            losses = gather_over_ranks(losses)
            if hvd.rank() == 0:
                print("epoch", epoch, "%.3f" % np.mean(losses))


dataset = shard(tf.data.Dataset.from_tensor_slices((real, noise))).shuffle(64).batch(BATCH)
trainer = Trainer()
trainer.train(dataset, 2)
if hvd.rank() == 0:
    trainer.generator.save_weights("generator.weights.h5")
