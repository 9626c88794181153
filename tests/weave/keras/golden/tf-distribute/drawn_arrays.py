"""Arrays that TensorFlow draws without a seed: all processes must have the same, of which each takes its share."""
import tensorflow as tf
import os


def print_on_rank_0(*values, **options):
    if is_chief:
        print(*values, **options)


strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0
tf.random.set_seed(0)

x = tf.random.normal(shape=[48, 2])
y = tf.reduce_sum(x, axis=1, keepdims=True) + 0.1 * tf.random.normal(shape=[48, 1])
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input(shape=(2,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.05 * strategy.num_replicas_in_sync), loss="mse")
model.fit(x, y, batch_size=6 * strategy.num_replicas_in_sync, epochs=2, verbose=0)
print_on_rank_0("mse %.4f" % model.evaluate(x, y, verbose=0))
