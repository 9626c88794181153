"""A loop over dataset.enumerate() with two optimizers, checkpoints, and images of a batch that is looked at."""
# not equal: batch norm
import datetime
import os
import time

import numpy as np
import tensorflow as tf
import tempfile

strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

tf.keras.utils.set_random_seed(2)
BUFFER_SIZE = 64
BATCH_SIZE = 4
LAMBDA = 100
x = np.random.rand(32, 8, 8, 1).astype("float32")


def load(image):
    return image, 1 - image


train_dataset = tf.data.Dataset.from_tensor_slices(x)
train_dataset = train_dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)
train_dataset = train_dataset.shuffle(BUFFER_SIZE)
train_dataset = train_dataset.batch(BATCH_SIZE * strategy.num_replicas_in_sync, drop_remainder=True)
test_dataset = tf.data.Dataset.from_tensor_slices(x[:8]).map(load).batch(BATCH_SIZE)


def Generator():
    inputs = tf.keras.layers.Input(shape=[8, 8, 1])
    h = tf.keras.layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    h = tf.keras.layers.BatchNormalization()(h)
    return tf.keras.Model(inputs=inputs, outputs=tf.keras.layers.Conv2D(1, 3, padding="same")(h))


def Discriminator():
    inp = tf.keras.layers.Input(shape=[8, 8, 1], name="input_image")
    tar = tf.keras.layers.Input(shape=[8, 8, 1], name="target_image")
    h = tf.keras.layers.concatenate([inp, tar])
    return tf.keras.Model(inputs=[inp, tar], outputs=tf.keras.layers.Conv2D(1, 3, strides=2)(h))


with strategy.scope():
    generator = Generator()
    discriminator = Discriminator()
loss_object = tf.keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")


def generator_loss(disc_generated_output, gen_output, target):
    gan_loss = tf.reduce_mean(loss_object(tf.ones_like(disc_generated_output), disc_generated_output))
    l1_loss = tf.reduce_mean(tf.abs(target - gen_output))
    total_gen_loss = gan_loss + (LAMBDA * l1_loss)
    return total_gen_loss, gan_loss, l1_loss


def discriminator_loss(disc_real_output, disc_generated_output):
    real_loss = tf.reduce_mean(loss_object(tf.ones_like(disc_real_output), disc_real_output))
    generated_loss = tf.reduce_mean(loss_object(tf.zeros_like(disc_generated_output), disc_generated_output))
    return real_loss + generated_loss


with strategy.scope():
    generator_optimizer = tf.keras.optimizers.Adam(2e-4 * strategy.num_replicas_in_sync, beta_1=0.5)
    discriminator_optimizer = tf.keras.optimizers.Adam(2e-4 * strategy.num_replicas_in_sync, beta_1=0.5)
checkpoint_prefix = os.path.join("training_checkpoints", "ckpt")
checkpoint = tf.train.Checkpoint(generator_optimizer=generator_optimizer, discriminator_optimizer=discriminator_optimizer,
                                 generator=generator, discriminator=discriminator)


def train_step(input_image, target):
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        gen_output = generator(input_image, training=True)
        disc_real_output = discriminator([input_image, target], training=True)
        disc_generated_output = discriminator([input_image, gen_output], training=True)
        gen_total_loss, gen_gan_loss, gen_l1_loss = generator_loss(disc_generated_output, gen_output, target)
        disc_loss = discriminator_loss(disc_real_output, disc_generated_output)
        scaled_gen_total_loss = gen_total_loss / strategy.num_replicas_in_sync
        scaled_disc_loss = disc_loss / strategy.num_replicas_in_sync
    generator_gradients = gen_tape.gradient(scaled_gen_total_loss, generator.trainable_variables)
    discriminator_gradients = disc_tape.gradient(scaled_disc_loss, discriminator.trainable_variables)
    generator_optimizer.apply_gradients(zip(generator_gradients, generator.trainable_variables))
    discriminator_optimizer.apply_gradients(zip(discriminator_gradients, discriminator.trainable_variables))
    return gen_total_loss, disc_loss


@tf.function
def distributed_train_step(*batch):
    losses = strategy.run(train_step, args=batch)
    return tuple(strategy.reduce(tf.distribute.ReduceOp.MEAN, loss, axis=None) for loss in losses)


def fit(train_ds, epochs, test_ds):
    distributed_train_ds = strategy.experimental_distribute_dataset(train_ds)
    for epoch in range(epochs):
        start = time.time()
        for example_input, example_target in test_ds.take(1):
            prediction = generator(example_input, training=True)
            if is_chief:
                np.save("image_%d.npy" % epoch, prediction.numpy())
        for n, (input_image, target) in enumerate(distributed_train_ds):
            if (n + 1) % 4 == 0:
                if is_chief:
                    print(".", end="")
            distributed_train_step(input_image, target)
        if (epoch + 1) % 2 == 0:
            checkpoint.save(file_prefix=checkpoint_prefix if is_chief else os.path.join(tempfile.mkdtemp(), os.path.basename(checkpoint_prefix)))
        if is_chief:
            print("Time taken for epoch {} is {} sec\n".format(epoch + 1, time.time() - start))


fit(train_dataset, 2, test_dataset)
