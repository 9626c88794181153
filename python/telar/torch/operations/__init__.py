"""The translations of ATen's operations, each by its name without the overload."""

from telar.torch.operations import elementwise, indexing, layers, losses, random, recurrent, reductions, sampling, shaping

TRANSLATIONS = {}
for _module in (elementwise, indexing, layers, losses, random, recurrent, reductions, sampling, shaping):
    TRANSLATIONS |= _module.TRANSLATIONS
