import tensorflow as tf

loss = tf.keras.metrics.Mean()


def show(epoch):
    print("epoch", epoch, "loss %.4f" % loss.result())
