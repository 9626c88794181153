import tensorflow as tf


class Step:
    def __init__(self, net, optimizer):
        self.net = net
        self.optimizer = optimizer

    @tf.function
    def __call__(self, features, targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.net(features) - targets))
        gradients = tape.gradient(loss, self.net.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.net.trainable_variables))
        return loss
