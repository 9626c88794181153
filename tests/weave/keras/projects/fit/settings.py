from tensorflow import keras


class Settings:
    seed = 7
    batch = 8
    width = 10
    epochs = 4
    rate = 0.05
    path = "classifier.h5"

    def optimizer(self):
        return keras.optimizers.SGD(learning_rate=self.rate, momentum=0.5)
