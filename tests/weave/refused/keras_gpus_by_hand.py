"""A loop divides each batch among the GPUs of its process itself."""
import numpy as np
import tensorflow as tf

x = np.random.RandomState(0).rand(64, 4).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).shuffle(64).batch(8)
model = tf.keras.Sequential([tf.keras.Input(shape=(4,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
gpus = 2
for inputs, targets in data:
    losses = []
    with tf.GradientTape() as tape:
        for i in range(gpus):
            with tf.device("/gpu:%d" % i):  # refused: the script divides its work among GPUs itself
                losses.append(tf.reduce_mean(tf.square(model(inputs[i::gpus]) - targets[i::gpus])))
        loss = tf.add_n(losses) / gpus
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
