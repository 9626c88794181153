"""A loop of one's own: tf.function, GradientTape, metrics objects, sums by hand, a CheckpointManager and a summary writer."""
import numpy as np
import tensorflow as tf
import horovod.tensorflow as hvd


def shard(dataset):
    # The same number of elements for each process; the remainder is left out.
    samples = int(dataset.cardinality())
    if samples == tf.data.UNKNOWN_CARDINALITY:
        samples = int(dataset.reduce(tf.constant(0, tf.int64), lambda count, *sample: count + 1))
    if samples != tf.data.INFINITE_CARDINALITY:
        dataset = dataset.take(samples // hvd.size() * hvd.size())
    return dataset.shard(hvd.size(), hvd.rank())


def sum_metric(metric):
    for variable in metric.variables:
        variable.assign(hvd.allreduce(variable, op=hvd.Sum))


def sum_over_ranks(value):
    total = tf.convert_to_tensor(value, tf.float64 if isinstance(value, float) else None)
    total = hvd.allreduce(total, op=hvd.Sum)
    return total if tf.is_tensor(value) else total.numpy().item()


hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

tf.keras.utils.set_random_seed(0)
rng = np.random.RandomState(0)
x = rng.rand(96, 5).astype("float32")
y = (x.sum(axis=1) > 2.5).astype("int32")

train_ds = shard(tf.data.Dataset.from_tensor_slices((x[:80], y[:80]))).shuffle(80, seed=1).batch(8)
test_ds = tf.data.Dataset.from_tensor_slices((x[80:], y[80:])).batch(8)

model = tf.keras.Sequential([tf.keras.Input(shape=(5,)), tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(2)])
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(learning_rate=0.001 * hvd.size())
optimizer.build(model.trainable_variables)
train_loss = tf.keras.metrics.Mean(name="train_loss")
train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
test_accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
writer = tf.summary.create_file_writer("logs") if hvd.rank() == 0 else tf.summary.create_noop_writer()
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
manager = tf.train.CheckpointManager(checkpoint, "checkpoints", max_to_keep=2)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = loss_fn(labels, logits)
    tape = hvd.DistributedGradientTape(tape)
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
        if optimizer.iterations == 1:
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(optimizer.variables(), root_rank=0)
        total += float(loss)
        if step % 5 == 0:
            if hvd.rank() == 0:
                tf.print("step", step)
    sum_metric(train_loss)
    sum_metric(train_accuracy)
    total = sum_over_ranks(total) / hvd.size()
    for images, labels in test_ds:
        test_accuracy(labels, model(images, training=False))
    with writer.as_default():
        tf.summary.scalar("loss", train_loss.result(), step=epoch)
    path = manager.save() if hvd.rank() == 0 else None
    if hvd.rank() == 0:
        print(f"epoch {epoch} loss {train_loss.result():.4f} mean {total / len(train_ds):.4f} "
          f"accuracy {train_accuracy.result():.4f} test {test_accuracy.result():.4f}")
if hvd.rank() == 0:
    model.save_weights("last.weights.h5")
