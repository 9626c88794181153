"""TensorFlow 1: a session with a configuration, Keras on it."""
# keras 2: sessions and backend.set_session are gone from Keras 3
# not verified for horovod: the stand-in of Horovod does not compute in sessions
# other output: Horovod averages the figures of an epoch, which TensorFlow 1 rounds
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(1)
np.random.seed(1)
config = tf.ConfigProto()
config.intra_op_parallelism_threads = 1
session = tf.Session(config=config)
tf.keras.backend.set_session(session)

x = np.random.rand(64, 4).astype("float32")
y = x.sum(axis=1)
model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(4,))])
model.compile(optimizer=tf.keras.optimizers.SGD(lr=0.05), loss="mse")
model.fit(x, y, batch_size=8, epochs=3, verbose=0)
print("loss", model.evaluate(x, y, verbose=0))
