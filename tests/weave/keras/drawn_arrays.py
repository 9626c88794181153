"""Arrays that TensorFlow draws without a seed: all processes must have the same, of which each takes its share."""
import tensorflow as tf

x = tf.random.normal(shape=[48, 2])
y = tf.reduce_sum(x, axis=1, keepdims=True) + 0.1 * tf.random.normal(shape=[48, 1])
model = tf.keras.Sequential([tf.keras.Input(shape=(2,)), tf.keras.layers.Dense(1)])
model.compile(optimizer=tf.keras.optimizers.SGD(0.05), loss="mse")
model.fit(x, y, batch_size=6, epochs=2, verbose=0)
print("mse %.4f" % model.evaluate(x, y, verbose=0))
