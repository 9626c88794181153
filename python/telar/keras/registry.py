"""How a file of layers or operations collects its translations."""


class Registry(dict):
    """Functions by the names of Keras's classes that they translate.

    A function takes the lowering (telar.keras.lowering), the layer, and what the layer is called with; it returns a
    value, or a list of them.
    """

    def translates(self, *names):
        def add(function):
            for name in names:
                self[name] = function
            return function

        return add
