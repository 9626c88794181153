"""A loop of one's own: tf.function, GradientTape, metrics objects, sums by hand, a CheckpointManager and a summary writer."""
import numpy as np
import tensorflow as tf
import os
import tempfile


def print_on_rank_0(*values, **options):
    if is_chief:
        print(*values, **options)


strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

tf.keras.utils.set_random_seed(0)
rng = np.random.RandomState(0)
x = rng.rand(96, 5).astype("float32")
y = (x.sum(axis=1) > 2.5).astype("int32")

train_ds = tf.data.Dataset.from_tensor_slices((x[:80], y[:80])).shuffle(80, seed=1).batch(8 * strategy.num_replicas_in_sync, drop_remainder=True)
test_ds = tf.data.Dataset.from_tensor_slices((x[80:], y[80:])).batch(8)

with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input(shape=(5,)), tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(2)])
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
with strategy.scope():
    optimizer = tf.keras.optimizers.Adam(learning_rate=0.001 * strategy.num_replicas_in_sync)
    optimizer.build(model.trainable_variables)
    train_loss = tf.keras.metrics.Mean(name="train_loss")
    train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
test_accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
writer = tf.summary.create_file_writer("logs") if is_chief else tf.summary.create_noop_writer()
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
manager = tf.train.CheckpointManager(checkpoint, "checkpoints" if is_chief else tempfile.mkdtemp(), max_to_keep=2)


def train_step(images, labels):
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = tf.reduce_mean(loss_fn(labels, logits))
        scaled_loss = loss / strategy.num_replicas_in_sync
    gradients = tape.gradient(scaled_loss, model.trainable_variables)
    gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
    gradients, _ = tf.clip_by_global_norm(gradients, 5.0)
    optimizer.apply_gradients([(tf.scalar_mul(1 / strategy.num_replicas_in_sync, gradient), variable) for gradient, variable in zip(gradients, model.trainable_variables)])
    train_loss(loss)
    train_accuracy.update_state(labels, logits)
    return loss


@tf.function
def distributed_train_step(*batch):
    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(train_step, args=batch), axis=None)


distributed_train_ds = strategy.experimental_distribute_dataset(train_ds)
for epoch in range(3):
    train_loss.reset_state()
    train_accuracy.reset_state()
    test_accuracy.reset_state()
    total = 0.0
    for step, (images, labels) in enumerate(distributed_train_ds):
        loss = distributed_train_step(images, labels)
        total += float(loss)
        if step % 5 == 0:
            if is_chief:
                tf.print("step", step)
    for images, labels in test_ds:
        test_accuracy(labels, model(images, training=False))
    with writer.as_default():
        tf.summary.scalar("loss", train_loss.result(), step=epoch)
    path = manager.save()
    print_on_rank_0(f"epoch {epoch} loss {train_loss.result():.4f} mean {total / len(train_ds):.4f} "
          f"accuracy {train_accuracy.result():.4f} test {test_accuracy.result():.4f}")
model.save_weights("last.weights.h5" if is_chief else os.path.join(tempfile.mkdtemp(), os.path.basename("last.weights.h5")))
