#!/usr/bin/env python3
"""Runs each Keras script in one process, and woven in two under Horovod or tf.distribute, and compares.

    check_keras.py [--target horovod|tf-distribute|tf-workers] TELAR SCRIPT.py...

tf-distribute runs a MirroredStrategy on two logical devices of one process. tf-workers runs a
MultiWorkerMirroredStrategy in two processes that find each other through TF_CONFIG.

Run it with the python of an environment that has TensorFlow and, for the target horovod, Horovod
(scripts/weave-e2e creates such environments).

Instruments inside the running programs check that:
  * both ranks end with the same weights;
  * the original, with twice the batch and twice the learning rate, ends with the same weights. Then every
    averaged gradient was that of the global batch. For this the instruments turn off shuffling, so that the
    original's k-th batch consists of the k-th batches of the ranks;
  * the woven script prints the same as the original, and rank 1 prints nothing;
  * a script whose weights cannot be equal ends with the original's loss or accuracy, within noise (0.15);
  * rank 1, in a separate folder, writes no file; rank 0 writes the files that the original writes, and a file
    of weights has the names and shapes of the original's.
Comments in a script name the version that it needs (`# keras 2: reason`,
`# keras 3 for tf.distribute: reason`) and what cannot be equal: `# not equal: reason` (dropout, schedules by
epoch, batches of a generator) and `# other output: reason`. A script with `# text only: reason` is not run.
"""
import importlib.metadata
import io
import json
import os
import re
import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from woven import NUMBER, golden, name_of, noise_complaints, options_of, text_complaints, weave

WORLD = 2
SECONDS = 900  # the time limit of one program


# This part runs inside the programs.


def scale_rate(optimizer, tf, done):
    """For the original: multiplies the learning rate and its schedule's speed by the number of ranks."""
    if id(optimizer) in done:
        return
    done[id(optimizer)] = optimizer
    base = tf.keras.optimizers.schedules.LearningRateSchedule
    rate = getattr(optimizer, "_learning_rate", None)
    if rate is None:
        rate = optimizer._get_hyper("learning_rate")
    if isinstance(rate, base):
        class Faster(base):
            def __call__(self, step):
                return WORLD * rate(tf.cast(step, tf.float32) * WORLD)

            def get_config(self):
                return {}

        optimizer._learning_rate = Faster()
    else:
        with tf.init_scope():
            rate.assign(WORLD * rate)


def watch(alone, target):
    """Installs the instruments; returns the models and optimizers, which are filled as they are created."""
    import tensorflow as tf

    models, optimizers, done = [], {}, {}
    init, fit, batch = tf.keras.Model.__init__, tf.keras.Model.fit, tf.data.Dataset.batch

    def note(self, *arguments, **options):
        init(self, *arguments, **options)
        if all(known is not self for known in models):
            models.append(self)

    def fit_in_order(self, *arguments, **options):
        options["shuffle"] = False
        optimizer = self.optimizer
        optimizers[id(optimizer)] = optimizer
        if alone:
            scale_rate(getattr(optimizer, "inner_optimizer", optimizer), tf, done)
            x = arguments[0] if arguments else options["x"]
            if not isinstance(x, tf.data.Dataset):
                given = arguments[2] if len(arguments) > 2 else options.get("batch_size")
                arguments = (arguments[:2] + (WORLD * (given or 32),) + arguments[3:]
                             if len(arguments) > 2 else arguments)
                if len(arguments) < 3:
                    options["batch_size"] = WORLD * (given or 32)
            if options.get("steps_per_epoch"):
                options["steps_per_epoch"] //= WORLD
        return fit(self, *arguments, **options)

    tf.keras.Model.__init__, tf.keras.Model.fit = note, fit_in_order
    tf.data.Dataset.shuffle = lambda self, *arguments, **options: self
    if alone:
        tf.data.Dataset.batch = lambda self, size, *arguments, **options: batch(
            self, WORLD * size, *arguments, **options)
    base = tf.keras.optimizers.Optimizer
    apply = base.apply_gradients

    def apply_and_note(self, *arguments, **options):
        optimizers[id(self)] = self
        if alone:
            scale_rate(self, tf, done)
        return apply(self, *arguments, **options)

    base.apply_gradients = apply_and_note
    if target == "tf-distribute" and not alone:
        cpus = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * WORLD)
        mirrored = tf.distribute.MirroredStrategy
        tf.distribute.MirroredStrategy = lambda: mirrored(["CPU:%d" % one for one in range(WORLD)])
    return models, optimizers


def run(script, folder, alone, target):
    """Runs one program; stores its output, variables and files in `folder`."""
    import numpy

    os.makedirs(folder + "/files")
    os.chdir(folder + "/files")
    models, optimizers = watch(alone, target)
    sys.argv = [script]
    sys.path.insert(0, os.path.dirname(script))
    out = io.StringIO()
    sys.stdout = out
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        sys.stdout = sys.__stdout__
    with open(folder + "/out", "w") as file:
        file.write(out.getvalue())
    values = {}

    def value_of(variable):
        try:
            return variable.numpy()
        except NotImplementedError:  # a variable of a TensorFlow 1 graph
            import tensorflow.compat.v1.keras.backend as backend
            return backend.get_value(variable)

    for number, model in enumerate(models):
        for place, variable in enumerate(model.trainable_variables if model.built else []):
            values["model%d.%d" % (number, place)] = value_of(variable)
    numpy.savez(folder + "/values.npz", **values)


# This part runs outside the programs.

def without_progress(text):
    """The text without progress bars, which contain times."""
    return re.sub(r".*[\x08\u2501].*\n?|.*\[=+\].*\n?|\d+/\d+ - .*\n?|\x1b\[[0-9;]*m", "", text)


def form_of_weights(path):
    """The names and shapes in an HDF5 file of Keras, which loading looks up. The names of optimizer variables
    contain a number of the graph (cond_2), which differs under a strategy; Keras loads them by order."""
    import h5py

    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, one: found.update({re.sub(r"cond_\d+", "cond", name): one.shape})
                        if isinstance(one, h5py.Dataset) else None)
    return found


def same_text(one, other):
    """Whether the words are equal and the numbers differ only by the order of summation."""
    one, other = without_progress(one), without_progress(other)
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other))
    return all(abs(float(a) - float(b)) <= 5e-3 * max(1.0, abs(float(a))) for a, b in pairs)


def files(folder):
    found = set()
    for path, _, names in os.walk(folder + "/files"):
        for name in names:
            # Event files have the time and the host in their names.
            name = "events" if name.startswith("events.out") else name
            found.add(os.path.relpath(os.path.join(path, name), folder + "/files"))
    return found


def free_ports():
    probes = [socket.socket() for _ in range(WORLD)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def start(script, folder, alone, target, log):
    command = [sys.executable, os.path.abspath(__file__), "--inside", script, folder,
               "alone" if alone else "together", target]
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", OMP_NUM_THREADS="1", TF_NUM_INTRAOP_THREADS="1",
                       CUDA_VISIBLE_DEVICES="-1")
    environments = [environment]
    if not alone and target == "horovod":
        runner = os.path.join(os.path.dirname(sys.executable), "horovodrun")
        command = [runner, "--gloo", "--network-interfaces", "lo", "-np", str(WORLD)] + command
    if not alone and target == "tf-workers":
        workers = ["127.0.0.1:%d" % port for port in free_ports()]
        environments = [
            dict(environment, TF_CONFIG=json.dumps({"cluster": {"worker": workers},
                                                    "task": {"type": "worker", "index": index}}))
            for index in range(WORLD)]
    with open(log, "w") as file:
        started = [subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=one)
                   for one in environments]
        try:
            codes = [one.wait(timeout=SECONDS) for one in started]
        finally:
            for one in started:
                one.kill()
    return max(codes, key=abs)


def tail(log):
    with open(log) as file:
        lines = [line for line in file.read().splitlines() if line.strip() and "horovod/runner" not in line]
    errors = [line for line in lines if "Error" in line and "horovod detected" not in line.lower()]
    lines = lines[-4:] + errors
    return "\n           ".join(lines[-12:])


def keras_version():
    return int(importlib.metadata.version("keras").split(".")[0])


def check(telar, script, folder, target):
    import numpy

    with open(script) as file:
        source = file.read()
    asked = ([telar, "weave", "--target", "tf-distribute" if target == "tf-workers" else target] +
             options_of(source))
    answer, woven = weave(asked, script, folder)
    expected = os.path.exists(golden(script, "tf-distribute", ".refused"))
    if target != "horovod" and (answer.returncode == 2 or (answer.returncode == 3 and expected)):
        return None
    if answer.returncode != 0:
        return ["telar weave: %d: %s" % (answer.returncode, answer.stderr.strip())]
    if "# text only:" in source or ("# keras 2:" in source and keras_version() >= 3):
        return None
    other = 2 if keras_version() >= 3 else 3
    if "# keras %d for tf.distribute:" % other in source and target != "horovod":
        return None
    complaints = []
    together = os.path.join(folder, "together")
    ranks = [together + "0", together + "1"] if target != "tf-distribute" else [together + "0"]
    log = os.path.join(folder, "log")
    try:
        if start(woven, together, False, target, log) != 0:
            return ["the woven script fails:\n           " + tail(log)]
    except subprocess.TimeoutExpired:
        return ["the woven script does not end:\n           " + tail(log)]
    values = [numpy.load(one + "/values.npz") for one in ranks]
    outputs = [open(one + "/out").read() for one in ranks]
    if not values[0].files:
        complaints.append("no model variables were found")
    for name in values[0].files:
        if len(values) > 1 and not numpy.allclose(values[0][name], values[1][name], rtol=1e-6, atol=1e-7):
            complaints.append("the ranks end with different variables: %s by %g" % (
                name, abs(values[0][name] - values[1][name]).max()))
            break
    if len(ranks) > 1 and outputs[1]:
        complaints.append("rank 1 prints %r" % outputs[1][:80])
    if len(ranks) > 1 and files(ranks[1]):
        complaints.append("rank 1 writes %s" % sorted(files(ranks[1]))[:5])
    alone = os.path.join(folder, "alone")
    if start(os.path.abspath(script), alone, True, target, log) != 0:
        return complaints + ["the original script fails:\n           " + tail(log)]
    expected = numpy.load(alone + "/values.npz")
    if "# not equal:" not in source:
        for name in expected.files:
            if name not in values[0].files or expected[name].shape != values[0][name].shape:
                complaints.append("the programs differ in their variables: " + name)
                break
            if not numpy.allclose(expected[name], values[0][name], rtol=2e-3, atol=2e-5):
                complaints.append("the variables differ from the single process's: %s by %g" % (
                    name, abs(expected[name] - values[0][name]).max()))
                break
    with open(alone + "/out") as file:
        text = file.read()
    if "# other output:" not in source and "# not equal:" not in source and not same_text(text, outputs[0]):
        complaints.append("prints %r, the original %r" % (outputs[0], text))
    if "# other output:" not in source and "# not equal:" in source:
        complaints += noise_complaints(without_progress(text), without_progress(outputs[0]))
    for name in sorted(files(alone) & files(ranks[0])):
        if name.endswith(".h5"):
            forms = [form_of_weights(os.path.join(one, "files", name)) for one in (alone, ranks[0])]
            if forms[0] != forms[1]:
                complaints.append("%s holds %s, the original's %s" % (name, forms[1], forms[0]))
    complaints += text_complaints(telar, asked, script, woven, folder)
    if files(alone) != files(ranks[0]):
        complaints.append("writes %s, the original %s" % (sorted(files(ranks[0])), sorted(files(alone))))
    return complaints


def main():
    if sys.argv[1] == "--inside":
        script, folder, how, target = sys.argv[2:6]
        cluster = json.loads(os.environ.get("TF_CONFIG", "{}"))
        rank = "" if how == "alone" else os.environ.get(
            "HOROVOD_RANK", str(cluster.get("task", {}).get("index", 0)))
        return run(script, folder + rank, how == "alone", target)
    target = "horovod"
    if sys.argv[1] == "--target":
        target = sys.argv[2]
        del sys.argv[1:3]
    telar, scripts = os.path.abspath(sys.argv[1]), sys.argv[2:]
    failed = refused = 0
    for script in scripts:
        begin = time.time()
        with tempfile.TemporaryDirectory() as folder:
            complaints = check(telar, script, folder, target)
            if complaints and os.environ.get("KEEP"):
                shutil.copytree(folder, os.environ["KEEP"], dirs_exist_ok=True)
        if complaints is None:
            refused += 1
            print("refused         %s" % name_of(script), flush=True)
            continue
        print("%-6s %5.1f s  %s" % ("FAILED" if complaints else "ok", time.time() - begin, name_of(script)),
              flush=True)
        for complaint in complaints:
            print("       " + complaint, flush=True)
        failed += bool(complaints)
    count = len(scripts) - refused
    print("%d of %d scripts passed%s" % (
        count - failed, count, ", %d are refused or for another Keras" % refused if refused else ""))
    return sys.exit(failed > 0)


if __name__ == "__main__":
    main()
