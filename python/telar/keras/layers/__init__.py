"""The translations of Keras's layers, by the names of their classes."""

from telar.keras.layers import attention, convolutions, core, normalisation, pooling, recurrent, regularisation, shaping

LAYERS = {}
for _module in (attention, convolutions, core, normalisation, pooling, recurrent, regularisation, shaping):
    LAYERS |= _module.LAYERS
