"""Models of Keras of the usual kinds, small: what telar.keras must train as Keras does.

Each function returns (model, loss, make), where make(n) is inputs and labels of n samples. Dropout is at 0, so that
losses can be compared.
"""

import keras
import numpy
from keras import layers, ops

MODELS = {}
RANDOM = numpy.random.default_rng(1)


def model(function):
    MODELS[function.__name__] = function
    return function


def normal(*shape):
    return RANDOM.normal(size=shape).astype("float32")


def classes(n, count):
    return RANDOM.integers(0, count, n)


@model
def mnist_convnet():
    """As in Keras's simple_mnist_convnet."""
    net = keras.Sequential([
        keras.Input((16, 16, 1)),
        layers.Conv2D(8, kernel_size=(3, 3), activation="relu"),
        layers.MaxPooling2D(pool_size=(2, 2)),
        layers.Conv2D(16, kernel_size=(3, 3), activation="relu"),
        layers.MaxPooling2D(pool_size=(2, 2)),
        layers.Flatten(),
        layers.Dropout(0.0),
        layers.Dense(10, activation="softmax"),
    ])
    return net, "categorical_crossentropy", lambda n: (normal(n, 16, 16, 1), numpy.eye(10, dtype="float32")[classes(n, 10)])


class TransformerBlock(layers.Layer):
    """As in Keras's text_classification_with_transformer."""

    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.0):
        super().__init__()
        self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
        self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)])
        self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)
        self.dropout1 = layers.Dropout(rate)
        self.dropout2 = layers.Dropout(rate)

    def call(self, inputs):
        attn_output = self.att(inputs, inputs)
        attn_output = self.dropout1(attn_output)
        out1 = self.layernorm1(inputs + attn_output)
        ffn_output = self.ffn(out1)
        ffn_output = self.dropout2(ffn_output)
        return self.layernorm2(out1 + ffn_output)


class TokenAndPositionEmbedding(layers.Layer):
    def __init__(self, maxlen, vocab_size, embed_dim):
        super().__init__()
        self.token_emb = layers.Embedding(input_dim=vocab_size, output_dim=embed_dim)
        self.pos_emb = layers.Embedding(input_dim=maxlen, output_dim=embed_dim)

    def call(self, x):
        maxlen = ops.shape(x)[-1]
        positions = ops.arange(start=0, stop=maxlen, step=1)
        positions = self.pos_emb(positions)
        x = self.token_emb(x)
        return x + positions


@model
def text_transformer():
    inputs = layers.Input(shape=(12,))
    x = TokenAndPositionEmbedding(12, 50, 16)(inputs)
    x = TransformerBlock(16, 2, 32)(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.0)(x)
    x = layers.Dense(20, activation="relu")(x)
    outputs = layers.Dense(2, activation="softmax")(x)
    net = keras.Model(inputs=inputs, outputs=outputs)
    return net, "sparse_categorical_crossentropy", lambda n: (RANDOM.integers(0, 50, (n, 12)), classes(n, 2))


@model
def mini_xception():
    """As in Keras's image_classification_from_scratch."""
    inputs = keras.Input(shape=(32, 32, 3))
    x = layers.Rescaling(1.0 / 255)(inputs)
    x = layers.Conv2D(16, 3, strides=2, padding="same")(x)
    x = layers.BatchNormalization()(x)
    x = layers.Activation("relu")(x)
    previous = x
    for size in (32, 64):
        x = layers.Activation("relu")(x)
        x = layers.SeparableConv2D(size, 3, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.SeparableConv2D(size, 3, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
        residual = layers.Conv2D(size, 1, strides=2, padding="same")(previous)
        x = layers.add([x, residual])
        previous = x
    x = layers.SeparableConv2D(64, 3, padding="same")(x)
    x = layers.BatchNormalization()(x)
    x = layers.Activation("relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.0)(x)
    outputs = layers.Dense(1, activation=None)(x)
    net = keras.Model(inputs, outputs)
    return net, keras.losses.BinaryCrossentropy(from_logits=True), lambda n: (
        RANDOM.uniform(0, 255, (n, 32, 32, 3)).astype("float32"), classes(n, 2))


@model
def bidirectional_lstm():
    """As in Keras's bidirectional_lstm_imdb."""
    inputs = keras.Input(shape=(None,), dtype="int32")
    x = layers.Embedding(40, 16)(inputs)
    x = layers.Bidirectional(layers.LSTM(8, return_sequences=True))(x)
    x = layers.Bidirectional(layers.LSTM(8))(x)
    net = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
    return net, "binary_crossentropy", lambda n: (RANDOM.integers(0, 40, (n, 9)), classes(n, 2))


@model
def autoencoder():
    """As in Keras's autoencoder, with transposed convolutions."""
    net = keras.Sequential([
        keras.Input((16, 16, 1)),
        layers.Conv2D(8, (3, 3), activation="relu", padding="same"),
        layers.MaxPooling2D((2, 2), padding="same"),
        layers.Conv2D(8, (3, 3), activation="relu", padding="same"),
        layers.MaxPooling2D((2, 2), padding="same"),
        layers.Conv2DTranspose(8, (3, 3), strides=2, activation="relu", padding="same"),
        layers.Conv2DTranspose(8, (3, 3), strides=2, activation="relu", padding="same"),
        layers.Conv2D(1, (3, 3), activation="sigmoid", padding="same"),
    ])

    def make(n):
        images = RANDOM.uniform(size=(n, 16, 16, 1)).astype("float32")
        return images, images

    return net, "binary_crossentropy", make


@model
def structured_data():
    """Several inputs: categories and numbers."""
    category, numbers = keras.Input((1,), dtype="int32", name="category"), keras.Input((5,), name="numbers")
    adapted = layers.Normalization()
    adapted.adapt(numpy.random.default_rng(2).normal(1, 3, (100, 5)))
    x = layers.Concatenate()([layers.Flatten()(layers.Embedding(7, 4)(category)), adapted(numbers)])
    x = layers.BatchNormalization()(layers.Dense(16, activation="relu")(x))
    net = keras.Model([category, numbers], layers.Dense(1)(x))
    return net, "mse", lambda n: ([RANDOM.integers(0, 7, (n, 1)), normal(n, 5)], normal(n, 1))


@model
def subclassed():
    """A model with a call of its own."""

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = layers.Dense(16, activation="gelu"), layers.Dense(3)
            self.dropout = layers.Dropout(0.0)

        def call(self, x, training=False):
            return self.second(self.dropout(self.first(x), training=training))

    return Net(), keras.losses.SparseCategoricalCrossentropy(from_logits=True), lambda n: (normal(n, 8), classes(n, 3))


def padded(n, steps=8, vocabulary=30, left=False):
    """Tokens of sentences of all lengths, whose padding is 0; with three and more, one has only padding."""
    tokens = RANDOM.integers(1, vocabulary, (n, steps))
    for row, length in zip(tokens, RANDOM.integers(1, steps + 1, n)):
        row[slice(0, steps - length) if left else slice(length, None)] = 0
    tokens[2:3] = 0
    return tokens


@model
def padded_classifier():
    """As in Keras's guide to masking and padding."""
    net = keras.Sequential([keras.Input((8,), dtype="int32"), layers.Embedding(30, 16, mask_zero=True), layers.LSTM(12),
                            layers.Dense(2, activation="softmax")])
    return net, "sparse_categorical_crossentropy", lambda n: (padded(n), classes(n, 2))


@model
def left_padded_classifier():
    """With the padding of pad_sequences(), which is before the words."""
    inputs = keras.Input((8,))
    x = layers.Embedding(30, 16, mask_zero=True)(inputs)
    x = layers.Bidirectional(layers.LSTM(8, return_sequences=True))(x)
    x = layers.Dropout(0.0)(layers.GRU(8)(x))
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x)), "binary_crossentropy", lambda n: (
        padded(n, left=True), classes(n, 2))


@model
def tagger():
    """As in Keras's ner_transformers, with recurrent layers: a label for each word, and none for the padding."""
    net = keras.Sequential([
        keras.Input((8,), dtype="int32"), layers.Embedding(30, 16, mask_zero=True),
        layers.Bidirectional(layers.GRU(8, return_sequences=True)), layers.TimeDistributed(layers.Dense(5, activation="softmax"))])
    return net, "sparse_categorical_crossentropy", lambda n: (padded(n), RANDOM.integers(0, 5, (n, 8)))


class MaskedBlock(layers.Layer):
    """An encoder of a transformer as in Keras's neural_machine_translation_with_transformer."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True
        self.attention, self.first, self.second = layers.MultiHeadAttention(2, 8), layers.LayerNormalization(), layers.LayerNormalization()
        self.dense = keras.Sequential([layers.Dense(24, activation="relu"), layers.Dense(16)])
        self.add = layers.Add()

    def call(self, inputs, mask=None):
        padding = None if mask is None else ops.cast(mask[:, None, :], dtype="int32")
        attended = self.attention(query=inputs, value=inputs, key=inputs, attention_mask=padding)
        x = self.first(inputs + attended)
        return self.second(self.add([x, self.dense(x)]))


@model
def padded_transformer():
    inputs = keras.Input((8,), dtype="int32")
    x = layers.Embedding(30, 16, mask_zero=True)(inputs)
    x = MaskedBlock()(MaskedBlock()(x))
    return keras.Model(inputs, layers.Dense(5)(x)), keras.losses.SparseCategoricalCrossentropy(from_logits=True), lambda n: (
        padded(n), RANDOM.integers(0, 5, (n, 8)))


@model
def mean_of_words():
    net = keras.Sequential([keras.Input((8,), dtype="int32"), layers.Embedding(30, 16, mask_zero=True), layers.GlobalAveragePooling1D(),
                            layers.Dense(16, activation="relu"), layers.Dense(1, activation="sigmoid")])

    def make(n):
        tokens = padded(n)
        tokens[:, 0] = 1  # of a sentence without words, Keras's mean is not a number
        return tokens, classes(n, 2)

    return net, "binary_crossentropy", make


@model
def masked_numbers():
    """A series with steps that are missing."""
    net = keras.Sequential([keras.Input((9, 3)), layers.Masking(-1.0), layers.LSTM(8, return_sequences=True), layers.SimpleRNN(6),
                            layers.Dense(1)])

    def make(n):
        x = normal(n, 9, 3)
        x[RANDOM.uniform(size=(n, 9)) < 0.4] = -1.0
        return x, normal(n, 1)

    return net, "mse", make


@model
def translator():
    """As in Keras's lstm_seq2seq, with padding and attention."""
    source, target = keras.Input((7,), dtype="int32"), keras.Input((6,), dtype="int32")
    encoded, *states = layers.LSTM(8, return_sequences=True, return_state=True)(layers.Embedding(20, 8, mask_zero=True)(source))
    decoded = layers.LSTM(8, return_sequences=True)(layers.Embedding(15, 8, mask_zero=True)(target), initial_state=states)
    x = layers.Concatenate()([decoded, layers.Attention()([decoded, encoded])])
    net = keras.Model([source, target], layers.Dense(15, activation="softmax")(x))
    return net, "sparse_categorical_crossentropy", lambda n: (
        [padded(n, 7, 20), padded(n, 6, 15)], RANDOM.integers(0, 15, (n, 6)))
