"""What is observed in one process, and where in the user's program it happened."""
import os
import sys


class End(BaseException):
    """Ends the observed program early: the comparison has nothing to compare further steps with."""


class Refused(BaseException):
    """Ends the observed program because it would change the user's files."""


class Record:
    """The observations of one process. `data()` is what the comparison reads."""

    def __init__(self, folder, plan):
        self.folder = folder  # the copy of the user's folder, in which the program runs
        self.steps_of_a_pass = plan["steps"]
        self.limit_samples = plan["limit_samples"]
        self.keeps_values = plan["target"] == "telar"  # also of the sequential program, whose steps are compared
        self.steps = []  # one dictionary for each optimizer step
        self.passes = []  # one data.Pass for each loop over a loader
        self.loader_lengths = {}  # by the loader's number: its len()
        self.texts = []  # (text, place, keys of the passes that are under way) of each write to stdout
        self.writes = []  # (path, place)
        self.neutral = set()  # what was replaced so that gradients can be compared
        self.excluded = {}  # reasons why gradients cannot be compared, with their places
        self.bypassed = []  # places where a wrapped model is called without its wrapper
        self.wrapped = set()  # ids of parameters in a DistributedDataParallel
        self.replay = None  # the sequential program: the records of the ranks
        self.early_end = ""
        self.forwards = [0, 0]  # of modules since the last batch was given: without and with gradients
        self.before_pass = None  # the sequential program: called with each pass before its first batch
        self.started_anew = 0  # optimizers whose first parameters were replaced by the woven program's
        self.rates = set()  # all learning rates that were in use, or were in the end
        self.clipped = False  # whether clipping changed a gradient
        self.unseen = ""  # why nothing of the training can be observed
        self.by_keras = False  # whether Keras may print progress bars
        self.started_later = False  # whether the ranks' parameters are made equal after the first step
        self.weights = []  # the first values of a model's weights, where they are observed
        self.cut = 0  # the number of steps after which a program without a loader was ended
        self.parts = []  # of tensors whose samples the ranks divide, by the tensors' numbers
        self.fakes = {}  # what has random data in its place (--fake-data): by name, its parts
        self.stand_ins = set()  # modules that are not installed
        self.ticks = 0

    def place(self):
        """(file, line) of the user's program that is being executed, or None."""
        frame = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(self.folder + os.sep):
                return (os.path.relpath(name, self.folder), frame.f_lineno)
            frame = frame.f_back
        return None

    def exclude(self, reason):
        self.excluded.setdefault(reason, self.place())

    def fake(self, name, part):
        parts = self.fakes.setdefault(name, [])
        if part and part not in parts:
            parts.append(part)

    def under_way(self):
        return [(one.loader, one.number) for one in self.passes if one.active]

    def tick(self):
        """A number that grows with each call: the order of what happened."""
        self.ticks += 1
        return self.ticks

    def trained_now(self):
        """The passes whose batches a backward pass uses now. A batch that was given before another pass began
        was only looked at."""
        waiting = [one for one in self.passes if one.active and one.fresh]
        return [one for one in waiting if not any(other.begun > one.given for other in waiting)]

    def batch_given(self, giver):
        """A batch that was only evaluated is not trained on by a later backward pass."""
        if self.forwards[False] and not self.forwards[True]:
            for one in self.passes:
                one.fresh = False
        self.forwards = [0, 0]
        giver.fresh = True

    def data(self):
        return {
            "steps": self.steps,
            "passes": [one.data() for one in self.passes],
            "loader_lengths": self.loader_lengths,
            "texts": self.texts,
            "writes": self.writes,
            "neutral": sorted(self.neutral),
            "excluded": self.excluded,
            "bypassed": self.bypassed,
            "wrapped": bool(self.wrapped),
            "early_end": self.early_end,
            "rates": self.rates,
            "started_anew": self.started_anew,
            "clipped": self.clipped,
            "unseen": self.unseen,
            "weights": self.weights,
            "by_keras": self.by_keras,
            "started_later": self.started_later,
            "cut": self.cut,
            "parts": self.parts,
            "fakes": self.fakes,
            "stand_ins": sorted(self.stand_ins),
        }
