"""A GAN whose losses are shown before the first step, of a batch outside the step; NumPy draws the noise of each step."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers
import os
import tempfile


def first_part(batch):
    # The first replica's part of a batch, which has the size of the script's.
    return tf.nest.map_structure(lambda part: strategy.experimental_local_results(part)[0], batch)


strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0
tf.random.set_seed(0)

rng = np.random.RandomState(1)
points = rng.rand(48, 2).astype("float32")
batch_size = 4
data = tf.data.Dataset.from_tensor_slices(points).repeat().shuffle(48).batch(batch_size)


class Generator(Model):
    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(6, activation="relu")
        self.out = layers.Dense(2)

    def call(self, x):
        return self.out(self.hidden(x))


class Discriminator(Model):
    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(6, activation="relu")
        self.out = layers.Dense(1)

    def call(self, x):
        return self.out(self.hidden(x))


with strategy.scope():
    generator = Generator()
    discriminator = Discriminator()
    optimizer_gen = tf.optimizers.SGD(learning_rate=0.01 * strategy.num_replicas_in_sync)
    optimizer_disc = tf.optimizers.SGD(learning_rate=0.01 * strategy.num_replicas_in_sync)


def generator_loss(fake):
    return tf.reduce_mean(tf.nn.softplus(-fake))


def discriminator_loss(fake, real):
    return tf.reduce_mean(tf.nn.softplus(fake)) + tf.reduce_mean(tf.nn.softplus(-real))


def run_optimization(real):
    noise = np.random.normal(size=[len(real), 3]).astype(np.float32)
    with tf.GradientTape() as g:
        fake = discriminator(generator(noise))
        disc_loss = discriminator_loss(fake, discriminator(real))
        scaled_disc_loss = disc_loss / strategy.num_replicas_in_sync
    gradients = g.gradient(scaled_disc_loss, discriminator.trainable_variables)
    optimizer_disc.apply_gradients(zip(gradients, discriminator.trainable_variables))
    noise = np.random.normal(size=[len(real), 3]).astype(np.float32)
    with tf.GradientTape() as g:
        gen_loss = generator_loss(discriminator(generator(noise)))
        scaled_gen_loss = gen_loss / strategy.num_replicas_in_sync
    gradients = g.gradient(scaled_gen_loss, generator.trainable_variables)
    optimizer_gen.apply_gradients(zip(gradients, generator.trainable_variables))
    return gen_loss, disc_loss


def distributed_run_optimization(*batch):
    losses = strategy.run(run_optimization, args=batch)
    return tuple(strategy.reduce(tf.distribute.ReduceOp.MEAN, loss, axis=None) for loss in losses)


for step, batch in enumerate(strategy.experimental_distribute_dataset(data.take(13).unbatch().batch(batch_size * strategy.num_replicas_in_sync, drop_remainder=True))):
    with strategy.scope():
        if step == 0:
            noise = np.random.normal(size=[batch_size, 3]).astype(np.float32)
            gen_loss = generator_loss(discriminator(generator(noise)))
            disc_loss = discriminator_loss(discriminator(generator(noise)), discriminator(first_part(batch)))
            if is_chief:
                print("initial: gen_loss: %f, disc_loss: %f" % (gen_loss, disc_loss))
            continue
    gen_loss, disc_loss = distributed_run_optimization(batch)
    if step % 4 == 0:
        if is_chief:
            print("step: %i, gen_loss: %f, disc_loss: %f, %s" % (step, gen_loss, disc_loss, first_part(batch).shape))
generator.save_weights("generator.weights.h5" if is_chief else os.path.join(tempfile.mkdtemp(), os.path.basename("generator.weights.h5")))
