"""Files and printed text. The program runs in a copy of the user's folder and must not change other files."""
import io
import os
import shutil
import sys
import tempfile

from .record import Refused

WRITES = set("wax+")


class Files:
    def __init__(self, record):
        self.record = record
        self.quiet = False
        self.temporary = [os.path.realpath(one) + os.sep for one in (tempfile.gettempdir(), "/dev", "/proc")]
        sys.addaudithook(self.hook)

    def hook(self, event, arguments):
        if self.quiet or event not in ("open", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree"):
            return
        self.quiet = True
        try:
            if event == "open":
                path, mode, flags = arguments
                if self.writes(mode, flags):
                    self.written(path, keeps=not isinstance(mode, str) or "w" not in mode)
            else:
                for path in arguments[:2] if event == "os.rename" else arguments[:1]:
                    self.guard(path)
        finally:
            self.quiet = False

    @staticmethod
    def writes(mode, flags):
        return WRITES & set(mode) if isinstance(mode, str) else (flags or 0) & (os.O_WRONLY | os.O_RDWR)

    def path_of(self, path):
        """The absolute path, without following a link at its end; None for a descriptor."""
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, (str, os.PathLike)):
            return None
        path = os.path.abspath(os.fspath(path))
        return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))

    def within(self, path):
        return path.startswith(self.record.folder + os.sep)

    def is_own_business(self, path):
        """Caches and temporary files."""
        # A file without a name is opened by the path of its folder.
        return (any((path + os.sep).startswith(one) for one in self.temporary) or path.endswith((".pyc", ".lock"))
                or any(part.startswith(".") for part in path.split(os.sep)))

    def guard(self, path):
        path = self.path_of(path)
        if path is None or self.within(path) or self.is_own_business(path) or not os.path.lexists(path):
            return
        raise Refused("%s is outside the current folder and would be changed; --verify changes none of your "
                      "files: give the script another path (after --)" % path)

    def written(self, path, keeps):
        path = self.path_of(path)
        if path is None or (not self.within(path) and self.is_own_business(path)) or path.endswith(".pyc"):
            return
        self.guard(path)
        if self.within(path) and os.path.islink(path):
            self.unlink(path, keeps)
        known = os.path.relpath(path, self.record.folder) if self.within(path) else path
        self.record.writes.append((known, self.record.place()))

    @staticmethod
    def unlink(path, keeps):
        """Replaces a link to the user's file by a copy, or by nothing if the program replaces the file."""
        target = os.path.realpath(path)
        os.unlink(path)
        if keeps and os.path.isfile(target):
            shutil.copy(target, path)


def watch_torch_saves(watch, torch):
    save = torch.save

    def observed(thing, file, *arguments, **options):
        # torch opens a path itself, unseen by the hook. (BytesIO: a tensor sent to another process.)
        if isinstance(file, (str, os.PathLike)):
            watch.written(file, keeps=False)
        return save(thing, file, *arguments, **options)

    torch.save = observed


class Printed(io.TextIOBase):
    """Standard output: passes text on and records it."""

    def __init__(self, record, out, before_write):
        self.record, self.out, self.before_write = record, out, before_write

    def write(self, text):
        self.before_write()
        self.record.texts.append((text, self.record.place(), self.record.under_way()))
        return self.out.write(text)

    def flush(self):
        self.out.flush()

    def isatty(self):
        return False

    def fileno(self):
        return self.out.fileno()

    @property
    def encoding(self):
        return self.out.encoding


def watch_logging(record):
    """Records what the user's program logs (not what the libraries log that it calls) as printed text."""
    import logging

    handle = logging.Logger.handle

    def observed(self, entry):
        if entry.pathname.startswith(record.folder + os.sep) and not self.disabled:
            record.texts.append((entry.getMessage() + "\n", record.place(), record.under_way()))
        return handle(self, entry)

    logging.Logger.handle = observed


def steady_clock(record):
    """Each look at the clock by the user's program takes a thousandth of a second, so that printed times are
    equal."""
    import time

    count = [0]

    def steady(real, start):
        def now():
            if not sys._getframe(1).f_code.co_filename.startswith(record.folder + os.sep):
                return real()
            count[0] += 1
            return start + count[0] / 1000
        return now

    for name in ("time", "perf_counter", "monotonic"):
        setattr(time, name, steady(getattr(time, name), 1.7e9 if name == "time" else 0.0))
