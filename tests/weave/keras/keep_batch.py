"""With --global-batch keep the processes divide the batch, and the learning rate stays."""
# weave with: --global-batch keep
# not equal: the instruments double batch and rate
# other output: so the figures differ
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(2)
x = np.random.rand(64, 4).astype("float32")
y = x.sum(axis=1)
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("rmsprop", "mse")
model.fit(x, y, epochs=2, verbose=0)
model.fit(tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64).batch(16), epochs=2, verbose=0)
print("%.5f" % model.evaluate(x, y, verbose=0))
