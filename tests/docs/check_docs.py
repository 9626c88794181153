#!/usr/bin/env python3
"""Checks that commands, jobs, keys and links in the documents are right.

    check_docs.py TELAR [FOLDER]

Reads README.md, docs/*.md and deploy/*/README.md of the repository, or of a copy of it in FOLDER.

  commands  of telar and of scripts/, in blocks of code and in inline code. The verb, the script and each
            option must exist; an option alone in inline code must be one of any verb or script. Where a job
            is named, `telar train JOB --check` must accept the values of --set, on STAND_IN if the job is not
            a file of the repository. Other programs are not checked
  jobs      blocks of YAML. `telar train --check` must accept them; a part of a job is completed with a model
            and data. Data that are missing here are not a mistake
  keys      `section.key`, `section: {key: value}` and --set section.key=… must be in the tables of
            docs/job.md, which tests/train/job_test.cpp compares with the program. Inline code of
            docs/weave.md is Python instead
  links     to files of the repository and to headings

Each complaint is one line, FILE:LINE: what is wrong. The exit code is 1 if there are any.
"""
import functools
import itertools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap

import yaml

PATTERNS = ("README.md", "docs/*.md", "deploy/*/README.md")
STAND_IN = "examples/fashion_mnist.yaml"
LAUNCHERS = {"env", "mpirun", "nohup", "salloc", "srun", "sudo", "time", "timeout"}
VERBS_WITH_JOB = {("train",), ("compare",), ("show",), ("bench", "scaling")}
MISSING_HERE = re.compile(
    r"there is no such (file|folder)$|No such file or directory$|no GPU: |no broker at |telar-cuda is missing|this build has no MPI", re.MULTILINE)
# Options of mpirun, Slurm, podman and torchrun, and of scripts to weave.
OF_OTHERS = {"--bind-to", "--hostfile", "--mca", "--cpus-per-task", "--gpus-per-task", "--mpi", "--build-arg",
             "--no-kill", "--ntasks-per-node", "--requeue", "--signal", "--redirects", "--tee", "--device"}
PLACEHOLDER = re.compile(r"[A-Z]+|\[?…\]?")


class Yaml12(yaml.SafeLoader):
    """As Telar reads YAML: `on` and `no` are texts."""

    yaml_implicit_resolvers = {first: [one for one in resolvers if first not in "oOyYnN" or not one[0].endswith(":bool")]
                               for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}


class Document:
    """A Markdown file: its blocks of code, and its prose line by line."""

    def __init__(self, root, path):
        self.path = path
        self.name = str(path.relative_to(root))
        self.blocks = []  # (language, number of the first line, lines)
        self.prose = []   # (number, line)
        block, fenced, after_empty = None, False, True
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            fence = re.match(r"\s*```\s*(\w*)", line)
            indented = line.startswith("    ") and not fenced and not fence and (block or after_empty)
            if fence:
                fenced = not fenced
                block = (fence.group(1), number + 1, []) if fenced else None
                if fenced:
                    self.blocks.append(block)
            elif fenced or indented:
                if block is None:
                    block = ("sh", number, [])
                    self.blocks.append(block)
                block[2].append(line)
            else:
                block = None
                self.prose.append((number, line))
            after_empty = not line.strip()

    def spans(self):
        """Inline code: (number, text). In a table a vertical bar is escaped."""
        for number, line in self.prose:
            for text in re.findall(r"(?<!`)`([^`]+)`", line):
                yield number, text.replace(r"\|", "|")

    @functools.cached_property
    def anchors(self):
        """GitHub's rule: lower case, no punctuation, hyphens for spaces; a number if it is not the first."""
        anchors, seen = set(), {}
        for _, line in self.prose:
            heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
            if heading:
                text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.group(1))
                anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
                anchors.add(anchor + ("-%d" % seen[anchor] if anchor in seen else ""))
                seen[anchor] = seen.get(anchor, 0) + 1
        return anchors


class Telar:
    """The program: its verbs and options, read from --help, and its opinion of a job."""

    def __init__(self, program, root):
        self.program = program
        self.root = root

    def run(self, *arguments):
        return subprocess.run([self.program, *arguments],
                              cwd=self.root, capture_output=True, text=True, timeout=60)

    @functools.lru_cache(maxsize=None)
    def help(self, *verb):
        return self.run(*verb, "--help").stdout

    def verbs(self, *verb):
        """The verbs below this one; none if it has no verbs of its own."""
        _, _, listed = self.help(*verb).partition("\nSubcommands:\n")
        return re.findall(r"^  ([\w-]+)", listed.partition("\n\n")[0], re.MULTILINE)

    def options(self, *verb):
        """The options, each with whether a value follows."""
        found = {}
        for names, value in re.findall(r"^  (-[-\w,]+)(?: ([A-Z]+))?", self.help(*verb), re.MULTILINE):
            found.update((name, bool(value)) for name in names.split(","))
        return found

    @functools.lru_cache(maxsize=None)
    def complaint_about(self, job, *overrides):
        """What is wrong with a job, or None."""
        sets = [word for value in overrides for word in ("--set", value)]
        answer = self.run("train", job, "--check", *sets)
        if answer.returncode == 0 or MISSING_HERE.search(answer.stderr):
            return None
        return " ".join(answer.stderr.split()).replace(job, "the job") or "exit code %d" % answer.returncode


def keys_of_tables(job_doc):
    """The keys of a job, with the short forms, from the tables of docs/job.md."""
    text = job_doc.path.read_text(encoding="utf-8")
    keys = set(re.findall(r"^\| `([a-z_]+(?:\.[a-z0-9_]+)+|name|loss)` \|", text, re.MULTILINE))
    keys |= set(re.findall(r"Short form: `([a-z]+): ", text))
    return keys | {"model", "model.name", "model.options", "model.layers", "model.file", "model.checksum", "model.weights",
                   "model.freeze"}


def paths_of(value, prefix=""):
    """The paths of all keys in a YAML value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield prefix + str(key)
            yield from paths_of(inner, prefix + str(key) + ".")


def words_of(line):
    """The words of a command line; separators such as && are words of their own."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    return list(lexer)


def divided(words, separators):
    """The words between separators."""
    return [list(part) for is_separator, part in itertools.groupby(words, lambda word: word in separators)
            if not is_separator]


def our_commands(line):
    """The commands of telar and of scripts/ in a line, without assignments and without mpirun, timeout …"""
    for words in divided(words_of(line), ("&&", "||", ";", "|", "&")):
        words = list(itertools.dropwhile(lambda word: re.match(r"[A-Za-z_]\w*=", word), words))
        if words and words[0] in LAUNCHERS:  # mpirun separates programs by a colon
            for part in divided(words, (":",)):
                yield from filter(None, [list(itertools.dropwhile(lambda word: not is_ours(word), part))])
        elif words and is_ours(words[0]):
            yield words


def is_ours(word):
    return re.fullmatch(r"(.*/)?telar|scripts/.+", word) is not None


def options_in(words):
    """Options, up to the -- behind which another program's begin."""
    words = words[:words.index("--")] if "--" in words else words
    return [word.partition("=")[0] for word in words if re.match(r"-[A-Za-z]|--[a-z]", word)]


class Check:
    def __init__(self, program, root):
        self.root = root
        self.telar = Telar(program, root)
        paths = [path for pattern in PATTERNS for path in sorted(root.glob(pattern))]
        self.documents = {path.resolve(): Document(root, path) for path in paths}
        self.keys = keys_of_tables(self.documents[(root / "docs/job.md").resolve()])
        self.sections = {key.partition(".")[0] for key in self.keys if "." in key}
        self.complaints = []
        self.counts = {"commands": 0, "keys": 0, "jobs": 0, "links": 0}

    def complain(self, document, number, what):
        self.complaints.append("%s:%d: %s" % (document.name, number, what))

    @functools.cached_property
    def options(self):
        """The options of all verbs and scripts."""
        verbs = [(verb,) for verb in self.telar.verbs()]
        verbs += [(*verb, below) for verb in verbs for below in self.telar.verbs(*verb)]
        found = {option for verb in verbs for option in self.telar.options(*verb)}
        for script in self.root.glob("scripts/*"):
            found.update(re.findall(r"(?<![\w-])--[a-z][\w-]*", script.read_text(encoding="utf-8")))
        return found

    def all(self):
        for document in self.documents.values():
            for language, number, lines in document.blocks:
                if language == "sh":
                    self.shell_block(document, number, lines)
                elif language == "yaml":
                    self.job(document, number, textwrap.dedent("\n".join(lines)))
            for number, text in document.spans():
                self.span(document, number, text)
            for number, line in document.prose:
                for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                    self.link(document, number, target)

    # Commands

    def shell_block(self, document, first, lines):
        joined = ""
        for number, line in enumerate(lines, first):
            if not joined:
                begin, line = number, re.sub(r"^\s*(?:\S*\$\s+)?", "", line)
            if line.endswith("\\"):
                joined += line[:-1]
                continue
            self.command_line(document, begin, joined + line)
            joined = ""

    def command_line(self, document, number, line):
        try:
            commands = list(our_commands(line))
        except ValueError as error:
            return self.complain(document, number, "%s in the command: %s" % (error, line))
        for command in commands:
            if command[0].startswith("scripts/"):
                self.script(document, number, command)
            else:
                self.verb(document, number, command[1:])
        for key in re.findall(r"--set\s+['\"]?([a-z][\w.]*)=", line):
            self.key(document, number, key)

    def script(self, document, number, command):
        name = command[0]
        self.counts["commands"] += 1
        path = self.root / name
        if not path.is_file():
            return self.complain(document, number, "there is no %s" % name)
        if not os.access(path, os.X_OK):
            self.complain(document, number, "%s is not executable" % name)
        text = path.read_text(encoding="utf-8")
        for option in options_in(command[1:]):
            if not re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(option), text):
                self.complain(document, number, "%s has no option %s" % (name, option))

    def verb(self, document, number, words):
        verb = []
        while self.telar.verbs(*verb) and words and not words[0].startswith("-"):
            if PLACEHOLDER.fullmatch(words[0]):
                return
            if words[0] not in self.telar.verbs(*verb):
                unknown = " ".join(["telar", *verb, words[0]])
                return self.complain(document, number, "there is no verb '%s'" % unknown)
            verb.append(words.pop(0))
        if not verb and not words:
            return
        self.counts["commands"] += 1
        options = self.telar.options(*verb)
        for option in options_in(words):
            if option not in options:
                self.complain(document, number, "telar %s has no option %s" % (" ".join(verb), option))
        if tuple(verb) in VERBS_WITH_JOB:
            self.overrides(document, number, words, options)

    def overrides(self, document, number, words, options):
        """Checks the job that a command names, with the values of its --set."""
        job = next((word for previous, word in zip(["", *words], words)
                    if re.fullmatch(r"JOB|[\w./-]+\.yaml", word) and not options.get(previous)), None)
        values = [value for option, value in zip(words, words[1:]) if option == "--set"]
        if job is None or any("…" in value or value == "KEY=VALUE" for value in values):
            return
        if job.startswith("examples/") and not (self.root / job).is_file():
            return self.complain(document, number, "there is no %s" % job)
        exists = (self.root / job).is_file()
        complaint = self.telar.complaint_about(job if exists else STAND_IN, *values)
        if complaint and (exists or not self.concerns_another_job(complaint, values)):
            self.complain(document, number, complaint)

    @staticmethod
    def concerns_another_job(complaint, values):
        """Whether a key has no meaning in STAND_IN, but may have one in a job with another strategy."""
        needed = re.search(r" is for ((\w+)\.(name|source)) ", complaint)
        return needed and not any(value.partition("=")[0] in needed.group(1, 2) for value in values)

    # Jobs and keys

    def job(self, document, number, text):
        self.counts["jobs"] += 1
        try:
            value = yaml.load(text, Yaml12)
        except yaml.YAMLError as error:
            return self.complain(document, number, "not YAML: " + " ".join(str(error).split()))
        if not isinstance(value, dict):
            return self.complain(document, number, "not a job")
        text += "".join("\n%s: %s\n" % missing for missing in (("model", "mlp"), ("data", "fashion-mnist"))
                        if missing[0] not in value)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "job.yaml")
            pathlib.Path(path).write_text(text, encoding="utf-8")
            complaint = self.telar.complaint_about(path)
        if complaint:
            self.complain(document, number, complaint)

    def span(self, document, number, text):
        if re.match(r"(telar|mpirun) |scripts/|--set |[A-Z_]+=\S* ", text):
            self.command_line(document, number, text)
        for option in re.findall(r"^--[a-z][\w-]*", text):
            if option not in self.options and option not in OF_OTHERS:
                self.complain(document, number, "neither a verb nor a script has the option %s" % option)
        if document.name == "docs/weave.md":
            return
        sections = "|".join(self.sections)
        named = re.fullmatch(r"((?:%s)\.[\w.*]+)(?:(?:: |=).*)?" % sections, text)
        if named and not re.search(r"\.(json|md|py|safetensors|yaml)$", named.group(1)):
            return self.key(document, number, named.group(1))
        if re.match(r"(?:%s): " % sections, text) and "…" not in text:
            try:
                value = yaml.load(text, Yaml12)
            except yaml.YAMLError as error:
                return self.complain(document, number, "not YAML: " + " ".join(str(error).split()))
            for key in paths_of(value):
                self.key(document, number, key)

    def key(self, document, number, key):
        self.counts["keys"] += 1
        path = key[:-2] if key.endswith(".*") else key
        known = path in self.keys or any(known.startswith(path + ".") for known in self.keys)
        if not known and not re.match(r"model\.(options|layers)\.", path):
            self.complain(document, number, "docs/job.md has no key '%s'" % key)

    # Links

    def link(self, document, number, target):
        if re.match(r"[a-z]+:", target):
            return
        self.counts["links"] += 1
        name, _, anchor = target.partition("#")
        path = (document.path.parent / name).resolve() if name else document.path.resolve()
        if not path.exists():
            self.complain(document, number, "the link %s leads to no file" % target)
        elif anchor:
            linked = self.documents.get(path)
            if linked is None or anchor not in linked.anchors:
                self.complain(document, number, "the link %s leads to no heading" % target)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else pathlib.Path(__file__).parents[2]).resolve()
    check = Check(os.path.abspath(sys.argv[1]), root)
    check.all()
    for complaint in check.complaints:
        print(complaint)
    print(", ".join("%d %s" % (count, what) for what, count in check.counts.items()) + " checked")
    sys.exit(1 if check.complaints else 0)


if __name__ == "__main__":
    main()
