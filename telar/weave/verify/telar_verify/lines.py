"""Places in the user's own program, for places in its woven form."""
import difflib
import os


def read_lines(path):
    with open(path, errors="replace") as file:
        return file.read().splitlines()


class Origin:
    """Maps places of the woven program to the user's files. `pairs`: by path, the original file and the woven
    one."""

    def __init__(self, pairs, script):
        self.script = script
        self.lines = {}
        for path, (original, woven) in pairs.items():
            self.lines[path] = self.mapping(read_lines(original), read_lines(woven))

    @classmethod
    def mapping(cls, original, woven):
        """For each woven line, the original's line and whether weave has written it."""
        found = {}
        for kind, a, b, c, d in difflib.SequenceMatcher(None, original, woven, autojunk=False).get_opcodes():
            for line in range(c, d):
                if kind == "equal":
                    found[line + 1] = (a + line - c + 1, False)
                    continue
                like = cls.most_like(woven[line].strip(), [one.strip() for one in original[a:b]])
                own = like is not None and original[a + like].strip() == woven[line].strip()
                found[line + 1] = (max(1, min(a + (like or 0) + 1, len(original))), not own)
        return found

    @staticmethod
    def most_like(line, candidates):
        """The number of the candidate that weave may have made the line from, or None."""
        likeness = [difflib.SequenceMatcher(None, line, one).ratio() for one in candidates]
        best = max(range(len(candidates)), key=likeness.__getitem__, default=None)
        return best if best is not None and likeness[best] > 0.6 else None

    def of(self, place, woven=True):
        """A place in words: "line 12", or "data.py, line 12"."""
        if place is None:
            return "a place outside the script"
        path, line = self.within(place[0]), place[1]
        note = ""
        if woven and path in self.lines:
            line, written = self.lines[path].get(line, (line, False))
            note = " (in what weave writes there)" if written else ""
        return ("line %d" % line if path == self.script else "%s, line %d" % (path, line)) + note

    @staticmethod
    def within(path):
        """The path within the program's folder, from one within the copy."""
        first, _, rest = path.partition(os.sep)
        return rest if first in ("current", "program") else path
