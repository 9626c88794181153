"""Python imports this at its start: small replacements of modules that scripts of the corpus import and that
are not installed with Debian's python3-torch. Only their files are observed."""
import importlib.util
import os
import sys
import threading
import types

if "TELAR_STAND_INS_THREAD" in os.environ:  # then the harness of `telar weave --verify` forks no process
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


class SummaryWriter:
    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.log_dir = folder
        self.path = os.path.join(folder, "events")

    def add_scalar(self, name, value, step):
        write(self.path, f"{name} {value} {step}")

    def close(self):
        pass


def stand_in(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module
    return module


if importlib.util.find_spec("tensorboard") is None:
    stand_in("torch.utils.tensorboard", SummaryWriter=SummaryWriter)
if importlib.util.find_spec("matplotlib") is None:
    plot = stand_in("matplotlib.pyplot", plot=lambda *values: None, savefig=lambda path: write(path, "plot"))
    stand_in("matplotlib", use=lambda backend: None, pyplot=plot)
