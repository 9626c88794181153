"""A GAN whose losses are shown before the first step, of a batch outside the step; NumPy draws the noise of each step."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers

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
optimizer_gen = tf.optimizers.SGD(learning_rate=0.01)
optimizer_disc = tf.optimizers.SGD(learning_rate=0.01)


def generator_loss(fake):
    return tf.reduce_mean(tf.nn.softplus(-fake))


def discriminator_loss(fake, real):
    return tf.reduce_mean(tf.nn.softplus(fake)) + tf.reduce_mean(tf.nn.softplus(-real))


def run_optimization(real):
    noise = np.random.normal(size=[len(real), 3]).astype(np.float32)
    with tf.GradientTape() as g:
        fake = discriminator(generator(noise))
        disc_loss = discriminator_loss(fake, discriminator(real))
    gradients = g.gradient(disc_loss, discriminator.trainable_variables)
    optimizer_disc.apply_gradients(zip(gradients, discriminator.trainable_variables))
    noise = np.random.normal(size=[len(real), 3]).astype(np.float32)
    with tf.GradientTape() as g:
        gen_loss = generator_loss(discriminator(generator(noise)))
    gradients = g.gradient(gen_loss, generator.trainable_variables)
    optimizer_gen.apply_gradients(zip(gradients, generator.trainable_variables))
    return gen_loss, disc_loss


for step, batch in enumerate(data.take(13)):
    if step == 0:
        noise = np.random.normal(size=[batch_size, 3]).astype(np.float32)
        gen_loss = generator_loss(discriminator(generator(noise)))
        disc_loss = discriminator_loss(discriminator(generator(noise)), discriminator(batch))
        print("initial: gen_loss: %f, disc_loss: %f" % (gen_loss, disc_loss))
        continue
    gen_loss, disc_loss = run_optimization(batch)
    if step % 4 == 0:
        print("step: %i, gen_loss: %f, disc_loss: %f, %s" % (step, gen_loss, disc_loss, batch.shape))
generator.save_weights("generator.weights.h5")
