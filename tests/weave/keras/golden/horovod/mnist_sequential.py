"""A dense network on arrays, as in the first lesson: optimizer by class, evaluation and saving at the end."""
import numpy as np
import tensorflow as tf
import horovod.tensorflow.keras as hvd


def share(values):
    # The same number of samples for each process; the remainder is left out.
    whole = len(values) // hvd.size() * hvd.size()
    return values[hvd.rank():whole:hvd.size()]


hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

tf.keras.utils.set_random_seed(3)
images = np.random.rand(260, 8, 8).astype("float32")
labels = (images[:, :4].sum(axis=(1, 2)) > images[:, 4:].sum(axis=(1, 2))).astype("int64")
x_train, y_train = images[:200], labels[:200]
x_test, y_test = images[200:], labels[200:]

model = tf.keras.models.Sequential([
    tf.keras.layers.Flatten(input_shape=(8, 8)),
    tf.keras.layers.Dense(16, activation="relu"),
    tf.keras.layers.Dense(2, activation="softmax"),
])
if hvd.rank() == 0:
    model.summary()

model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(learning_rate=0.1 * hvd.size())),
              loss="sparse_categorical_crossentropy",
              metrics=["accuracy"])
history = model.fit(share(x_train), share(y_train), batch_size=20, epochs=4, validation_data=(x_test, y_test), verbose=1 if hvd.rank() == 0 else 0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("history", [round(float(value), 4) for value in history.history["loss"]])

loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
if hvd.rank() == 0:
    print("test", loss, accuracy)
    model.save("model.h5")
