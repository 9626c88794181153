"""Variables that are no model's, with their latest checkpoint; gradients within the tape's block; a loss and an accuracy of the batch shown now and then."""
import numpy as np
import tensorflow as tf
import horovod.tensorflow as hvd


def average_gradients(gradients):
    return tf.nest.map_structure(
        lambda one: one if one is None else hvd.allreduce(one, op=hvd.Average), gradients)


def shard(dataset):
    # The same number of elements for each process; the remainder is left out.
    samples = int(dataset.cardinality())
    if samples == tf.data.UNKNOWN_CARDINALITY:
        samples = int(dataset.reduce(tf.constant(0, tf.int64), lambda count, *sample: count + 1))
    if samples != tf.data.INFINITE_CARDINALITY:
        dataset = dataset.take(samples // hvd.size() * hvd.size())
    return dataset.shard(hvd.size(), hvd.rank())


def print_on_rank_0(*values, **options):
    if hvd.rank() == 0:
        print(*values, **options)


hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
tf.random.set_seed(0)

rng = np.random.RandomState(0)
x = rng.rand(64, 6).astype("float32")
y = (x.sum(axis=1) > 3).astype("int64")
batch_size = 4
data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().shuffle(64, seed=3).batch(batch_size).prefetch(1)

random_normal = tf.initializers.RandomNormal()
weights = {
    "hidden": tf.Variable(random_normal([6, 8])),
    "out": tf.Variable(random_normal([8, 2])),
}
b = tf.Variable(tf.zeros([8]), name="bias")
optimizer = tf.optimizers.SGD(0.05 * hvd.size())
manager = tf.train.CheckpointManager(tf.train.Checkpoint(b=b), "checkpoints", max_to_keep=1)
if manager.latest_checkpoint:
    hvd.allreduce(tf.constant(0.0))
    manager.checkpoint.restore(manager.latest_checkpoint)


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
        gradients = average_gradients(g.gradient(loss, variables))
        optimizer.apply_gradients(zip(gradients, variables))


hvd.broadcast_variables([b], root_rank=0)
hvd.broadcast_variables(list(weights.values()), root_rank=0)
for step, (batch_x, batch_y) in enumerate(shard(data.take(16)), 1):
    run_optimization(batch_x, batch_y)

    if step % 4 == 0:
        logits = network(batch_x)
        loss = cross_entropy(logits, batch_y)
        print_on_rank_0("step: %i, loss: %f, accuracy: %f" % (step, loss, accuracy(logits, batch_y)))

if hvd.rank() == 0:
    print("accuracy: %.4f" % accuracy(network(x), y))
    manager.save()
    np.save("hidden.npy", weights["hidden"].numpy())
