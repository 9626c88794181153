"""The learning rate grows over the first epochs."""
# keras 2 for horovod: keras.backend.get_value is gone from Keras 3, which Horovod does not know
# weave with: --warmup 2
# not equal: the original does not warm up
# other output: so its figures differ
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(2)
x = np.random.rand(96, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = keras.Sequential([layers.Dense(8, activation="tanh", input_shape=(4,)), layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
model.compile(optimizer=optimizer, loss="mse")
model.fit(x, y, 16, 4, 0)
print("loss", model.evaluate(x, y, verbose=0))
