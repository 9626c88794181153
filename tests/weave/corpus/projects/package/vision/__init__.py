from . import config, optimizers, report
from .nets import Small
from .nets import make as make_model
