"""The case of document 001: LR × size, epochs ÷ size, broadcast, rank 0 evaluates and saves."""
# weave with: --epochs divide
# not equal: every process sees all samples
# other output: so its figures differ
import numpy as np
import tensorflow as tf
from tensorflow.keras.layers import Dense
from tensorflow.keras.models import Sequential
from tensorflow.keras.optimizers import SGD
import horovod.tensorflow.keras as hvd
import math

hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

tf.keras.utils.set_random_seed(5)
data = np.random.rand(128, 20).astype("float32")
labels = tf.keras.utils.to_categorical((data.sum(axis=1) > 10).astype(int), 2)

model = Sequential()
model.add(Dense(16, activation="relu", input_dim=20))
model.add(Dense(8, activation="relu"))
model.add(Dense(2, activation="softmax"))
model.compile(loss="categorical_crossentropy", optimizer=hvd.DistributedOptimizer(SGD(learning_rate=0.01 * hvd.size())), metrics=["accuracy"])
model.fit(data, labels, epochs=math.ceil(4 / hvd.size()), batch_size=32, verbose=1 if hvd.rank() == 0 else 0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
score = model.evaluate(data, labels, verbose=1 if hvd.rank() == 0 else 0)
if hvd.rank() == 0:
    print("loss and accuracy", score)
    model.save("model.h5")
