"""The model that is trained comes compiled from a file; another one is compiled here."""
from tensorflow import keras

data = keras.datasets.mnist.load_data()[0]
other = keras.Sequential([keras.layers.Dense(10)])
other.compile(optimizer="sgd", loss="mse")
model = keras.models.load_model("model.keras")
model.fit(data[0], data[1], epochs=2)  # refused: weave does not see where this model is compiled
