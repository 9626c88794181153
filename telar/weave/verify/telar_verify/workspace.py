"""Copies of the user's folder, in which the programs run: files that they write stay in the copy."""
import os
import shutil

MOST_ENTRIES = 20_000  # beyond, folders are linked instead of copied
SMALL = 1 << 20  # larger files are linked
MOST_BYTES = 256 << 20  # of small files together
LEFT_OUT = {".git", ".hg", ".svn", "__pycache__"}
OUR_OWN = ("telar-verify-", "telar-harness-")  # the folder for temporary files may be in the user's


class Copier:
    def __init__(self):
        self.entries = self.bytes = 0

    def copy(self, source, target):
        os.makedirs(target, exist_ok=True)
        folders = [(source, target)]
        while folders:  # breadth first: what lies deep is linked when the limit is reached
            source, target = folders.pop(0)
            for entry in sorted(os.scandir(source), key=lambda one: one.name):
                if entry.name in LEFT_OUT or entry.name.startswith(OUR_OWN):
                    continue
                self.entries += 1
                path = os.path.join(target, entry.name)
                if (entry.is_dir(follow_symlinks=False) and self.entries < MOST_ENTRIES
                        and not os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))):
                    os.makedirs(path, exist_ok=True)
                    folders.append((entry.path, path))
                else:
                    self.place(entry, path)

    def place(self, entry, path):
        size = entry.stat().st_size if entry.is_file() else None
        if size is not None and size <= SMALL and self.bytes + size <= MOST_BYTES:
            self.bytes += size
            shutil.copy(entry.path, path)
        else:
            os.symlink(os.path.realpath(entry.path), path)


def is_within(path, folder):
    return os.path.commonpath([path, folder]) == folder


class Workspace:
    """A copy of the current folder and, if it is elsewhere, of the program's. `current`: where to run;
    `program`: the folder with the script or the project."""

    def __init__(self, folder, current, program):
        self.folder = os.path.realpath(folder)
        current, program = os.path.realpath(current), os.path.realpath(program)
        self.current = os.path.join(self.folder, "current")
        if is_within(program, current):
            Copier().copy(current, self.current)
            self.program = os.path.join(self.current, os.path.relpath(program, current))
        elif is_within(current, program):
            self.program = os.path.join(self.folder, "program")
            Copier().copy(program, self.program)
            self.current = os.path.join(self.program, os.path.relpath(current, program))
        else:
            Copier().copy(current, self.current)
            self.program = os.path.join(self.folder, "program")
            Copier().copy(program, self.program)
        # A program in a folder that is linked, because the folder around it has too many entries.
        if os.path.realpath(self.program) != self.program:
            self.program = os.path.join(self.folder, "program")
            Copier().copy(program, self.program)

    def replace(self, path, source):
        """Puts a woven file in the place of the program's."""
        target = os.path.join(self.program, path)
        if os.path.lexists(target):
            os.unlink(target)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(source, target)
