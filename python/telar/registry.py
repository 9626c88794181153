"""How a file of layers or operations collects its translations."""


class Registry(dict):
    """Functions by the names of a framework's operations or layers that they translate.

    A function takes the lowering (telar.torch.lowering, telar.keras.lowering) and the operation's arguments; it returns
    a value, or a list of them.
    """

    def translates(self, *names):
        def add(function):
            for name in names:
                self[name] = function
            return function

        return add
