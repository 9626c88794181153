from . import functional, transforms
from .transforms import *  # noqa: F401,F403
from .transforms import __getattr__  # noqa: F401
