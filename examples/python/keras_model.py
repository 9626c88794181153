# %% [markdown]
# # A Keras model on Telar
#
# `fit`, callbacks, metrics and files stay Keras's; Telar makes the steps. The backend may be TensorFlow or PyTorch.
#
# It runs as a script, and VS Code opens it as a notebook (`# %%` begins a cell; Jupyter does so with jupytext):
#
#     KERAS_BACKEND=torch PYTHONPATH=build/release/python python examples/python/keras_model.py

# %%
import gzip
import tempfile

import keras
import numpy
from keras import layers

import telar
import telar.keras as tk

# %% [markdown]
# ## Data and model
#
# The first photos of Fashion-MNIST (Debian's package dataset-fashion-mnist), and a small convolutional network.

# %%
FASHION = "/usr/share/datasets/fashion-mnist"


def read(kind, count):
    """The first photos, [N, 28, 28, 1], and what they show, a number from 0 to 9."""
    with gzip.open(f"{FASHION}/{kind}-images-idx3-ubyte.gz") as file:
        photos = numpy.frombuffer(file.read(16 + count * 784), numpy.uint8, offset=16).reshape(count, 28, 28, 1)
    with gzip.open(f"{FASHION}/{kind}-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(8 + count), numpy.uint8, offset=8)
    return photos.astype("float32") / 255, labels.astype("int64")


x, y = read("train", 6000)
test_x, test_y = read("t10k", 1000)


def network():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((28, 28, 1)), layers.Conv2D(16, 3, strides=2, activation="relu"),
                              layers.Conv2D(32, 3, strides=2, activation="relu"), layers.Flatten(),
                              layers.Dense(10, activation="softmax")])
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


# %% [markdown]
# ## One line more
#
# `use` gives the steps of a compiled model to Telar, here to two replicas. The first batch is compared with Keras's own.
# The losses are Keras's, up to rounding.

# %%
plain = network()
right = plain.fit(x, y, batch_size=64, epochs=1, shuffle=False, verbose=0).history

model = tk.use(network(), strategy="mirrored", replicas=2)
found = model.fit(x, y, batch_size=64, epochs=1, shuffle=False, verbose=0).history
print("Keras:", right, "Telar:", found)
assert abs(found["loss"][0] - right["loss"][0]) < 5e-3

# %% [markdown]
# ## Callbacks
#
# They see the variables of now. What they change, such as the learning rate or the best weights, counts for the next step.

# %%
folder = tempfile.mkdtemp()
callbacks = [keras.callbacks.ModelCheckpoint(f"{folder}/epoch-{{epoch}}.keras"),
             keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2 if epoch > 1 else rate),
             keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True)]
history = model.fit(x, y, batch_size=64, epochs=3, validation_split=0.1, callbacks=callbacks, verbose=2).history
assert len(history["val_loss"]) == 3 and history["val_accuracy"][-1] > 0.75

# %% [markdown]
# ## Evaluate and predict
#
# Both are Keras's functions, with Telar's steps; with metrics that Telar does not know, too.

# %%
loss, accuracy = model.evaluate(test_x, test_y, verbose=0)
probabilities = model.predict(test_x, verbose=0)
print("test loss", loss, "accuracy", accuracy)
assert abs(numpy.mean(probabilities.argmax(1) == test_y) - accuracy) < 1e-6

# %% [markdown]
# ## Keras's files
#
# A model that Keras loads goes on where it stopped: its file has the optimizer's state, too.

# %%
model.save(f"{folder}/clothes.keras")
loaded = tk.use(keras.models.load_model(f"{folder}/clothes.keras"), strategy="pipeline", stages=2)
loaded.fit(x, y, batch_size=64, epochs=1, verbose=2)
assert loaded.evaluate(test_x, test_y, verbose=0)[0] < 1

# %% [markdown]
# ## A file of Telar
#
# `telar.load` reads it without Keras, and `telar train` trains it further, on several hosts, too.

# %%
tk.save(model, f"{folder}/clothes.telar")
file = telar.load(f"{folder}/clothes.telar")
assert numpy.allclose(file.predict(test_x), probabilities, atol=1e-5)
print("means of the file:", file.evaluate(test_x, test_y))

# %% [markdown]
# ## Back to Keras
#
# `release` gives the steps back. The variables have been Keras's all the time.

# %%
tk.release(model)
assert abs(model.evaluate(test_x, test_y, verbose=0)[0] - loss) < 1e-4
