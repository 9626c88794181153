#!/usr/bin/env python3
"""Edits a woven script wrong, once for each class of fault, and checks that `telar weave --verify` finds it.

    check_verify.py TELAR [WORD...]

With words: only the faults whose names contain one. The unedited script must pass, and the user's files must
stay as they are. The faults share the processes that have imported PyTorch (verifier.py).
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
WRAP = "model = DistributedDataParallel(model)\n"
BACKWARD = "        loss.backward()\n"
KEYS = ("model.module.state_dict()", "model.state_dict()")
EPOCH = ("    train_loader.sampler.set_epoch(epoch)\n", "")
FIRST = "if dist.get_rank() == 0:\n    "
RANK_1 = "if dist.get_rank() == 1: "


class Fault:
    """An edit of the woven script, the row of the table that must say WRONG, and words that must be said."""

    def __init__(self, name, old, new, row, says, options=()):
        self.name, self.row, self.says, self.options = name, row, says, list(options)
        self.edits = old if isinstance(old, list) else [(old, new)]


FAULTS = [
    Fault("the loop uses the model from before the wrapping",
          [(WRAP, "wrapped = DistributedDataParallel(model)\n"), KEYS], None,
          "parameters", "called without its wrapper at line 37"),
    Fault("no wrapper at all", [(WRAP, ""), KEYS], None,
          "parameters", "after step 1 the parameters of rank 1"),
    Fault("samples are not divided", [("sampler=DistributedSampler(train_set)", "shuffle=True"), EPOCH], None,
          "samples", "used more than once"),
    Fault("the order stays the same", *EPOCH, "samples", "the same order"),
    Fault("the samples are not shuffled",
          "DistributedSampler(train_set)", "DistributedSampler(train_set, shuffle=False)",
          "samples", "shuffles its samples"),
    Fault("each rank splits in its own way",
          "whole = Blobs(70)", "whole = Blobs(70)\ntorch.manual_seed(dist.get_rank())", "samples", "used"),
    Fault("an epoch is missing", "in range(2)", "in range(1)",
          "samples", "the woven program does not make pass 2 of loader 1"),
    Fault("an epoch too many", "in range(2)", "in range(3)",
          "samples", "pass 3 of the loop at line 35 is not made by the sequential program"),
    Fault("steps are missing", "        optimizer.step()\n", "        if epoch == 0: optimizer.step()\n",
          "gradients", "the ranks make 5 steps, the sequential program 10"),
    Fault("the rate is not scaled", "lr=0.1 * dist.get_world_size()", "lr=0.1",
          "learning rate", "step 1, at line 39: 1 times"),
    Fault("the loss is scaled", BACKWARD, "        (2 * loss).backward()\n",
          "gradients", "step 1, at line 39: the averaged gradient is 2 times"),
    Fault("another loss", "criterion(model(x + 0.05", "nn.L1Loss()(model(x + 0.05",
          "gradients", "differs from the sequential"),
    Fault("the batch is divided and the rate scaled", "batch_size=5", "batch_size=2",
          "batches", "batches of 2 samples, the script 5"),
    Fault("the evaluation sees a share",
          "batch_size=10)", "batch_size=10, sampler=DistributedSampler(test_set, shuffle=False))",
          "printed", "line 47"),
    Fault("equal noise", "torch.manual_seed(torch.initial_seed() + dist.get_rank())\n", "",
          "random numbers", "same numbers (torch)"),
    Fault("equal changes of samples", "np.random.seed(torch.initial_seed() % 2**32)\n", "",
          "random numbers", "same random numbers (numpy)"),
    Fault("a sum of one rank is printed", "total = sum_over_ranks(total) / dist.get_world_size()", "pass",
          "printed", "at line 47: 'epoch 0"),
    Fault("every rank prints", "    " + FIRST + "    print", "    if True:\n        print",
          "printed", "rank 1 prints too, at line 47"),
    Fault("every rank writes", FIRST + "torch.save", "if True:\n    torch.save",
          "files", "model.pt is written by 2 ranks"),
    Fault("no rank writes", FIRST + "torch.save", "if dist.get_rank() == 2:\n    torch.save",
          "files", "model.pt is not written (sequentially at line 48)"),
    Fault("the keys of the wrapper are saved", *KEYS, "files", "model.pt: 0.weight is missing"),
    Fault("a rank leaves the loop", BACKWARD, BACKWARD + "        " + RANK_1 + "break\n",
          "processes", "waits at line 3", ["--deadline", "15"]),
    Fault("a rank fails", BACKWARD, BACKWARD + "        " + RANK_1 + "raise ValueError('no')\n",
          "processes", "rank 1: ValueError: no, at line 3"),
    Fault("a rank waits for ever", FIRST + "torch.save",
          "import time\n" + RANK_1 + "time.sleep(1000)\n" + FIRST + "torch.save",
          "processes", "has not ended and waits at line 4", ["--deadline", "8"]),
    Fault("a summed loss with the whole batch", "nn.MSELoss()", "nn.MSELoss(reduction='sum')",
          "gradients", "the loss is a sum over the batch", ["--global-batch", "keep"]),
]


def run(telar, arguments, folder):
    os.makedirs(folder + "/tmp", exist_ok=True)
    environment = dict(os.environ, PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"],
                       TMPDIR=os.path.join(folder, "tmp"))
    return subprocess.run([telar, "weave"] + arguments, cwd=folder, env=environment, capture_output=True,
                          text=True)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read()


def row_of(text, name):
    """The lines of a row of the table."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("  " + name + " ")]
    if not starts:
        return ""
    row = [lines[starts[0]]]
    for line in lines[starts[0] + 1:]:
        if not line.startswith(" " * 20):
            break
        row.append(line)
    return "\n".join(row)


def edited(text, edits):
    for old, new in edits:
        assert text.count(old) == 1, "there are %d times %r" % (text.count(old), old)
        text = text.replace(old, new)
    return text


def check(telar, folder, fault, verifier):
    """Complaints about one fault."""
    script = read(HERE + "/verify/noisy.py")
    changes_script = fault.options[:1] == ["--global-batch"]  # both are edited: weave refuses such a script
    write(folder + "/train.py", script)
    woven = edited(run(telar, ["train.py"] + (fault.options if changes_script else []), folder).stdout, fault.edits)
    if changes_script:
        write(folder + "/train.py", edited(script, fault.edits))
    write(folder + "/woven.py", woven)
    answer = verifier.run([telar, "weave", "--verify", "train.py", "--woven", "woven.py"] + fault.options, folder)
    row = row_of(answer.stdout, fault.row)
    if answer.returncode != 1 or "WRONG" not in row or fault.says not in row:
        return ["exit code %d, in the row %r: %r; %s" % (answer.returncode, fault.row, row,
                                                         answer.stderr[-500:])]
    return []


def check_right(telar, folder):
    """The unedited script passes; what the user has stays as it is, and nothing is left."""
    write(folder + "/train.py", read(HERE + "/verify/noisy.py"))
    write(folder + "/history.json", "mine")
    answer = run(telar, ["--verify", "train.py"], folder)
    complaints = []
    if answer.returncode != 0 or "WRONG" in answer.stdout or "not compared" in answer.stdout:
        complaints.append("exit code %d: %s%s" % (answer.returncode, answer.stdout, answer.stderr[-500:]))
    if read(folder + "/history.json") != "mine" or os.path.exists(folder + "/model.pt"):
        complaints.append("the user's folder was changed: %s" % sorted(os.listdir(folder)))
    if os.listdir(folder + "/tmp"):
        complaints.append("leaves %s" % os.listdir(folder + "/tmp"))
    return complaints


def check_outside(telar, folder):
    """A script that would replace a file elsewhere is stopped."""
    other = folder + "/elsewhere"
    os.mkdir(other)
    os.mkdir(folder + "/here")
    write(other + "/model.pt", "mine")
    script = read(HERE + "/verify/noisy.py").replace('"model.pt"', repr(other + "/model.pt"))
    write(folder + "/here/train.py", script)
    answer = run(telar, ["--verify", "train.py"], folder + "/here")
    complaints = []
    if read(other + "/model.pt") != "mine":
        complaints.append("a file outside was replaced")
    if answer.returncode == 0 or "outside the current folder" not in answer.stdout + answer.stderr:
        complaints.append("exit code %d: %s%s" % (answer.returncode, answer.stdout, answer.stderr[-500:]))
    return complaints


def check_limited(telar, folder):
    """With --limit-samples each data set has so many samples: 20 make two steps of five on each of two ranks."""
    write(folder + "/train.py", read(HERE + "/verify/noisy.py"))
    answer = run(telar, ["--verify", "--limit-samples", "20", "train.py"], folder)
    row = row_of(answer.stdout, "parameters")
    return [] if answer.returncode == 0 and "each of 4 steps" in row else [answer.stdout + answer.stderr[-500:]]


def main():
    from verifier import Verifier  # which needs NumPy; check_telar.py imports this file

    telar, words = os.path.abspath(sys.argv[1]), sys.argv[2:]
    checks = [("the unedited script passes", check_right), ("files outside stay", check_outside),
              ("limited samples", check_limited)]
    failed = 0
    with Verifier() as verifier:
        for one in FAULTS:
            checks.append((one.name, lambda telar, folder, fault=one: check(telar, folder, fault, verifier)))
        for name, work in checks:
            if words and not any(word in name for word in words):
                continue
            with tempfile.TemporaryDirectory() as folder:
                complaints = work(telar, folder)
            print("%-6s %s" % ("FAILED" if complaints else "ok", name), flush=True)
            for complaint in complaints:
                print("       " + complaint, flush=True)
            failed += bool(complaints)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
