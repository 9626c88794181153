"""The message for what the stand-in does not have."""


def explain(module):
    """A `__getattr__` for the module."""
    def missing(name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError("%s.%s is not among what --fake-data replaces where torchvision is not installed: "
                          "install torchvision" % (module, name))
    return missing
