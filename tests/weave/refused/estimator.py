"""An Estimator trains by a function that makes its data."""
import tensorflow as tf


def train_input():
    data = {"x": tf.random.normal([60, 1])}
    return tf.data.Dataset.from_tensor_slices((data, data["x"][:, 0] > 0)).repeat().batch(10)


columns = [tf.feature_column.numeric_column("x")]
model = tf.estimator.LinearClassifier(columns)  # refused: an Estimator trains
model.train(train_input, steps=20)
print(model.evaluate(train_input, steps=2))
