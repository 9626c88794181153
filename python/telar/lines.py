"""Files of records that are being written."""

import json
import os


class Lines:
    """The records of a file to which others append, and which a run that is started again replaces."""

    def __init__(self, path):
        self.path = path
        self.file = None

    def new(self):
        yield from self._rest()
        try:
            if self.file is None or os.fstat(self.file.fileno()).st_ino != os.stat(self.path).st_ino:
                self.file = open(self.path, "rb")  # noqa: SIM115: until there is another one
        except FileNotFoundError:
            return
        yield from self._rest()

    def _rest(self):
        for line in iter(self.file.readline, b"") if self.file else ():
            if not line.endswith(b"\n"):  # it is being written
                self.file.seek(-len(line), os.SEEK_CUR)
                return
            yield json.loads(line)
