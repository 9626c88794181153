"""The case of document 001: LR × size, epochs ÷ size, broadcast, rank 0 evaluates and saves."""
# weave with: --epochs divide
# not equal: every process sees all samples
# other output: so its figures differ
import numpy as np
import tensorflow as tf
from tensorflow.keras.layers import Dense
from tensorflow.keras.models import Sequential
from tensorflow.keras.optimizers import SGD

tf.keras.utils.set_random_seed(5)
data = np.random.rand(128, 20).astype("float32")
labels = tf.keras.utils.to_categorical((data.sum(axis=1) > 10).astype(int), 2)

model = Sequential()
model.add(Dense(16, activation="relu", input_dim=20))
model.add(Dense(8, activation="relu"))
model.add(Dense(2, activation="softmax"))
model.compile(loss="categorical_crossentropy", optimizer=SGD(learning_rate=0.01), metrics=["accuracy"])
model.fit(data, labels, epochs=4, batch_size=32)
score = model.evaluate(data, labels)
print("loss and accuracy", score)
model.save("model.h5")
