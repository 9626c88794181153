"""A loop of one's own: tf.function, GradientTape, metrics objects, sums by hand, a CheckpointManager and a summary writer."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(0)
rng = np.random.RandomState(0)
x = rng.rand(96, 5).astype("float32")
y = (x.sum(axis=1) > 2.5).astype("int32")

train_ds = tf.data.Dataset.from_tensor_slices((x[:80], y[:80])).shuffle(80, seed=1).batch(8)
test_ds = tf.data.Dataset.from_tensor_slices((x[80:], y[80:])).batch(8)

model = tf.keras.Sequential([tf.keras.Input(shape=(5,)), tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(2)])
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam()
optimizer.build(model.trainable_variables)
train_loss = tf.keras.metrics.Mean(name="train_loss")
train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
test_accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
writer = tf.summary.create_file_writer("logs")
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
manager = tf.train.CheckpointManager(checkpoint, "checkpoints", max_to_keep=2)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = loss_fn(labels, logits)
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients, _ = tf.clip_by_global_norm(gradients, 5.0)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    train_loss(loss)
    train_accuracy.update_state(labels, logits)
    return loss


for epoch in range(3):
    train_loss.reset_state()
    train_accuracy.reset_state()
    test_accuracy.reset_state()
    total = 0.0
    for step, (images, labels) in enumerate(train_ds):
        loss = train_step(images, labels)
        total += float(loss)
        if step % 5 == 0:
            tf.print("step", step)
    for images, labels in test_ds:
        test_accuracy(labels, model(images, training=False))
    with writer.as_default():
        tf.summary.scalar("loss", train_loss.result(), step=epoch)
    path = manager.save()
    print(f"epoch {epoch} loss {train_loss.result():.4f} mean {total / len(train_ds):.4f} "
          f"accuracy {train_accuracy.result():.4f} test {test_accuracy.result():.4f}")
model.save_weights("last.weights.h5")
