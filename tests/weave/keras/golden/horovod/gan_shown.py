"""A GAN whose losses are shown before the first step, of a batch outside the step; NumPy draws the noise of each step."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers
import horovod.tensorflow as hvd


def shard(dataset):
    # The same number of elements for each process; the remainder is left out.
    samples = int(dataset.cardinality())
    if samples == tf.data.UNKNOWN_CARDINALITY:
        samples = int(dataset.reduce(tf.constant(0, tf.int64), lambda count, *sample: count + 1))
    if samples != tf.data.INFINITE_CARDINALITY:
        dataset = dataset.take(samples // hvd.size() * hvd.size())
    return dataset.shard(hvd.size(), hvd.rank())


hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
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


generator = Generator()
discriminator = Discriminator()
optimizer_gen = tf.optimizers.SGD(learning_rate=0.01 * hvd.size())
optimizer_disc = tf.optimizers.SGD(learning_rate=0.01 * hvd.size())


def generator_loss(fake):
    return tf.reduce_mean(tf.nn.softplus(-fake))


def discriminator_loss(fake, real):
    return tf.reduce_mean(tf.nn.softplus(fake)) + tf.reduce_mean(tf.nn.softplus(-real))


def run_optimization(real):
    noise = np.random.normal(size=[len(real), 3]).astype(np.float32)
    with tf.GradientTape() as g:
        fake = discriminator(generator(noise))
        disc_loss = discriminator_loss(fake, discriminator(real))
    g = hvd.DistributedGradientTape(g)
    gradients = g.gradient(disc_loss, discriminator.trainable_variables)
    optimizer_disc.apply_gradients(zip(gradients, discriminator.trainable_variables))
    noise = np.random.normal(size=[len(real), 3]).astype(np.float32)
    with tf.GradientTape() as g:
        gen_loss = generator_loss(discriminator(generator(noise)))
    g = hvd.DistributedGradientTape(g)
    gradients = g.gradient(gen_loss, generator.trainable_variables)
    optimizer_gen.apply_gradients(zip(gradients, generator.trainable_variables))
    return gen_loss, disc_loss


for step, batch in enumerate(shard(data.take(13))):
    if step == 0:
        noise = np.random.normal(size=[batch_size, 3]).astype(np.float32)
        gen_loss = generator_loss(discriminator(generator(noise)))
        disc_loss = discriminator_loss(discriminator(generator(noise)), discriminator(batch))
        if hvd.rank() == 0:
            print("initial: gen_loss: %f, disc_loss: %f" % (gen_loss, disc_loss))
        continue
    gen_loss, disc_loss = run_optimization(batch)
    if optimizer_disc.iterations == 1:
        hvd.broadcast_variables(discriminator.variables, root_rank=0)
        hvd.broadcast_variables(generator.variables, root_rank=0)
        hvd.broadcast_variables(optimizer_disc.variables(), root_rank=0)
        hvd.broadcast_variables(optimizer_gen.variables(), root_rank=0)
    if step % 4 == 0:
        if hvd.rank() == 0:
            print("step: %i, gen_loss: %f, disc_loss: %f, %s" % (step, gen_loss, disc_loss, batch.shape))
if hvd.rank() == 0:
    generator.save_weights("generator.weights.h5")
