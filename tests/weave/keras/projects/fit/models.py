from tensorflow.keras import Model, layers


def classifier(width):
    inputs = layers.Input((5,))
    hidden = layers.Dense(width, activation="tanh")(inputs)
    return Model(inputs, layers.Dense(3, activation="softmax")(hidden))


if __name__ == "__main__":
    classifier(4).summary()
