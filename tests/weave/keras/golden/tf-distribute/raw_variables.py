"""Variables that are no model's, with their latest checkpoint; gradients within the tape's block; a loss and an accuracy of the batch shown now and then."""
import numpy as np
import tensorflow as tf
import os
import tempfile


def first_part(batch):
    # The first replica's part of a batch, which has the size of the script's.
    return tf.nest.map_structure(lambda part: strategy.experimental_local_results(part)[0], batch)


def print_on_rank_0(*values, **options):
    if is_chief:
        print(*values, **options)


strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0
tf.random.set_seed(0)

rng = np.random.RandomState(0)
x = rng.rand(64, 6).astype("float32")
y = (x.sum(axis=1) > 3).astype("int64")
batch_size = 4
data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().shuffle(64, seed=3).batch(batch_size).prefetch(1)

random_normal = tf.initializers.RandomNormal()
with strategy.scope():
    weights = {
        "hidden": tf.Variable(random_normal([6, 8])),
        "out": tf.Variable(random_normal([8, 2])),
    }
    b = tf.Variable(tf.zeros([8]), name="bias")
    optimizer = tf.optimizers.SGD(0.05 * strategy.num_replicas_in_sync)
manager = tf.train.CheckpointManager(tf.train.Checkpoint(b=b), "checkpoints" if is_chief else tempfile.mkdtemp(), max_to_keep=1)
if tf.train.latest_checkpoint("checkpoints"):
    manager.checkpoint.restore(tf.train.latest_checkpoint("checkpoints"))


def network(x):
    return tf.matmul(tf.nn.relu(tf.matmul(x, weights["hidden"]) + b), weights["out"])


def cross_entropy(logits, y):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def accuracy(logits, y):
    return tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))


def run_optimization(x, y):
    with tf.GradientTape() as g:
        loss = cross_entropy(network(x), y)
        variables = list(weights.values()) + [b]
        scaled_loss = loss / strategy.num_replicas_in_sync
        gradients = g.gradient(scaled_loss, variables)
        optimizer.apply_gradients(zip(gradients, variables))


def distributed_run_optimization(*batch):
    strategy.run(run_optimization, args=batch)


for step, (batch_x, batch_y) in enumerate(strategy.experimental_distribute_dataset(data.take(16).unbatch().batch(batch_size * strategy.num_replicas_in_sync, drop_remainder=True)), 1):
    distributed_run_optimization(batch_x, batch_y)

    if step % 4 == 0:
        logits = network(first_part(batch_x))
        loss = cross_entropy(logits, first_part(batch_y))
        print_on_rank_0("step: %i, loss: %f, accuracy: %f" % (step, loss, accuracy(logits, first_part(batch_y))))

if is_chief:
    print("accuracy: %.4f" % accuracy(network(x), y))
manager.save()
if is_chief:
    np.save("hidden.npy", weights["hidden"].numpy())
