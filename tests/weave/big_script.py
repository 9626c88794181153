#!/usr/bin/env python3
"""Prints a long training script: COUNT copies (130: about 10,000 lines) of the classes and functions of
corpus/trainer_class.py under different names. Weave changes every copy; docs/weave.md has the times.

    big_script.py [COUNT]
"""
import os
import re
import sys


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 130
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "trainer_class.py")) as file:
        head, first, rest = file.read().partition("class Sines(")
    repeated = (first + rest).partition("if __name__")[0]
    names = re.compile(r"\b(Sines|Regressor|Trainer|main)\b")
    print(head, end="")
    for number in range(count):
        print(names.sub(lambda name: "%s_%d" % (name.group(), number), repeated))
    print('if __name__ == "__main__":')
    for number in range(count):
        print("    main_%d()" % number)


if __name__ == "__main__":
    main()
