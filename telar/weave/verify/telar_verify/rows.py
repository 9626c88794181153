"""The table of a verification."""

OK, DIFFERS, EXCLUDED, NOTHING, FAKE = "right", "WRONG", "not compared", "-", "random"


class Row:
    """One comparison: its verdict, and what was compared or what differs."""

    def __init__(self, name, verdict, text, details=()):
        self.name, self.verdict, self.text, self.details = name, verdict, text, list(details)

    def lines(self):
        first = "  %-14s %-12s %s" % (self.name, self.verdict, self.text)
        return [first] + ["  %-14s %-12s %s" % ("", "", one) for one in self.details]


def plural(count, thing):
    if count == 1:
        return "1 " + thing
    return "%d %s" % (count, thing + ("es" if thing.endswith("s") else "s"))


def listed(things, most=3):
    things = list(things)
    text = ", ".join(str(one) for one in things[:most])
    return text + (", …" if len(things) > most else "")
