"""A training step of TensorFlow 1, which runs in a session."""
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [None, 4])
y = tf.placeholder(tf.float32, [None, 1])
weights = tf.Variable(tf.zeros([4, 1]))
loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - y))
step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)  # refused: a session of TensorFlow 1
data = np.random.randn(60, 4).astype("float32")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for epoch in range(3):
        for i in range(0, 60, 10):
            part = data[i:i + 10]
            session.run(step, feed_dict={x: part, y: part.sum(1, keepdims=True)})
