"""A script that shows the same training as an Estimator and with fit()."""
import numpy as np
import tensorflow as tf

x = np.random.RandomState(0).rand(64, 1).astype("float32")


def inputs():
    return tf.data.Dataset.from_tensor_slices(({"x": x}, x)).batch(8)


columns = [tf.feature_column.numeric_column("x")]
estimator = tf.estimator.LinearRegressor(feature_columns=columns)  # refused: an Estimator trains
estimator.train(input_fn=inputs)

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
model.fit(x, x, epochs=2)
