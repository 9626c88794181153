"""How a file of operations collects its translations."""


class Registry(dict):
    """Functions by the names of the operations that they translate.

    A function takes the lowering (telar.torch.lowering) and the operation's arguments by the names of its schema;
    it returns a value, or a list of them.
    """

    def translates(self, *names):
        def add(function):
            for name in names:
                self[name] = function
            return function

        return add
