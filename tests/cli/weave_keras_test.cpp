#include <nlohmann/json.hpp>

#include "cli/weave_case.h"

#ifdef TELAR_WEAVE
namespace telar::test {
namespace {

/// Weaves Keras scripts of a few lines.
class WeaveKeras : public WeaveCase {
 protected:
  /// A script with this optimizer, and `fit` between compilation and evaluation.
  static std::string script(const std::string& optimizer, const std::string& fit) {
    return "import tensorflow as tf\nfrom data import x, y, batches\n"
           "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
           "model.compile(optimizer=" +
           optimizer + ", loss='mse')\n" + fit + "\nprint(model.evaluate(x, y))\nmodel.save('model.h5')\n";
  }
};

TEST_F(WeaveKeras, MakesTheChangesOfDocument001) {
  const std::string woven =
      weave(script("tf.keras.optimizers.SGD(0.1)", "model.fit(x, y, epochs=12)"), "--epochs divide").out;
  for (const char* part :
       {"import horovod.tensorflow.keras as hvd\n", "hvd.init()\n", "gpus[hvd.local_rank()]",
        "hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1 * hvd.size()))",
        "epochs=math.ceil(12 / hvd.size())", "hvd.callbacks.BroadcastGlobalVariablesCallback(0)",
        "if hvd.rank() == 0:\n    print(model.evaluate(x, y"}) {
    EXPECT_TRUE(says(woven, part));
  }
  EXPECT_EQ(woven.find("share("), std::string::npos);
}

TEST_F(WeaveKeras, DividesTheSamplesUnlessEpochsAreDivided) {
  const std::string woven = weave(script("'adam'", "model.fit(x, y, batch_size=8, epochs=2)")).out;
  EXPECT_TRUE(says(woven, "model.fit(share(x), share(y), batch_size=8, epochs=2"));
  EXPECT_TRUE(says(woven, "tf.keras.optimizers.Adam(learning_rate=0.001 * hvd.size())"));
  const std::string kept =
      weave(script("'adam'", "model.fit(x, y, batch_size=8, epochs=2)"), "--global-batch keep").out;
  EXPECT_TRUE(says(kept, "batch_size=8 // hvd.size()"));
  EXPECT_TRUE(says(kept, "learning_rate=0.001)"));
}

TEST_F(WeaveKeras, WarmsUpWhenAsked) {
  EXPECT_TRUE(says(weave(script("'sgd'", "model.fit(x, y)"), "--warmup 3").out,
                   "hvd.callbacks.LearningRateWarmupCallback(initial_lr="));
}

TEST_F(WeaveKeras, WritesTensorFlowStrategies) {
  const std::string woven =
      weave(script("'adam'", "model.fit(x, y, steps_per_epoch=10)"), "--target tf-distribute").out;
  for (const char* part : {"tf.distribute.MultiWorkerMirroredStrategy() if \"TF_CONFIG\" in os.environ",
                           "with strategy.scope():\n    model = ", "0.001 * strategy.num_replicas_in_sync",
                           "steps_per_epoch=10 // strategy.num_replicas_in_sync"}) {
    EXPECT_TRUE(says(woven, part));
  }
}

TEST_F(WeaveKeras, OnlyTheChiefWritesFilesUnderTheStrategy) {
  const std::string callbacks =
      "tf.keras.callbacks.CSVLogger('log.csv'), tf.keras.callbacks.ModelCheckpoint('best.h5')";
  const std::string woven =
      weave(script("'adam'", "model.fit(x, y, callbacks=[" + callbacks + "])"), "--target tf-distribute").out;
  for (const char* part :
       {"*([tf.keras.callbacks.CSVLogger('log.csv')] if is_chief else [])",
        "tf.keras.callbacks.ModelCheckpoint('best.h5' if is_chief else os.path.join(tempfile.mkdtemp(), "}) {
    EXPECT_TRUE(says(woven, part));
  }
}

TEST_F(WeaveKeras, ReportsWhatKeras2CannotLoadUnderTheStrategy) {
  const CommandResult told = weave(script("'adam'", "model.load_weights('a.weights.h5')\nmodel.fit(x, y)"),
                                   "--explain --target tf-distribute");
  EXPECT_TRUE(says(told.out, "Keras 2 fails here with a TypeError for .weights.h5"));
}

TEST_F(WeaveKeras, RefusesDataThatItCannotDivide) {
  const CommandResult unknown = weave(script("'adam'", "model.fit(batches)"));
  EXPECT_EQ(unknown.code, 3);
  EXPECT_TRUE(says(unknown.err, "train.py:5: batches: "));
  const CommandResult by_batch = weave(script("'adam'", "model.train_on_batch(x[:8], y[:8])"));
  EXPECT_EQ(by_batch.code, 3);
  const CommandResult optimizer = weave(script("make()", "model.fit(x, y)"));
  EXPECT_TRUE(says(optimizer.err, "optimizer"));
  const CommandResult backup =
      weave(script("'adam'", "model.fit(x, y, callbacks=[tf.keras.callbacks.BackupAndRestore('b')])"));
  EXPECT_TRUE(says(backup.err, "after a restart"));
  EXPECT_EQ(weave(script("'adam'", "model.fit(x, y)"), "--target ddp").code, 2);
}

TEST_F(WeaveKeras, IsDescribedLikePyTorch) {
  const auto program = nlohmann::json::parse(weave(script("'adam'", "model.fit(x, y)"), "--describe").out);
  EXPECT_EQ(program.at("framework"), "keras");
  EXPECT_EQ(program.at("models").at(0).at("made").at(0).at("layers").at(0).at("kind"), "keras.layers.Dense");
  EXPECT_EQ(program.at("optimizers").at(0).at("kind"), "adam");
  EXPECT_EQ(program.at("loops").at(0).at("does"), "training");
}

TEST_F(WeaveKeras, RecognisesArraysThroughTheirMethods) {
  const std::string given =
      "digits = np.concatenate([x, y], axis=0)\ndigits = np.expand_dims(digits, -1).astype('float32')\n"
      "model.fit(digits, epochs=2)";
  const CommandResult result = weave("import numpy as np\n" + script("'adam'", given));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "model.fit(share(digits), epochs=2"));
}

TEST_F(WeaveKeras, RecognisesADatasetOfATable) {
  const std::string given =
      "import regex as re\npattern = re.compile('a+', 0)\ntable = tfds.load('digits')\n"
      "model.fit(table['train'].batch(4), epochs=2)";
  const CommandResult result = weave("import tensorflow_datasets as tfds\n" + script("'adam'", given));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "shard(table['train']).batch(4)")) << result.out;
}

/// A loop with a tape over `iterable`; `step` draws noise if `draws`.
std::string tape_loop(const std::string& iterable, bool draws) {
  return "import tensorflow as tf\ntf.random.set_seed(4)\n"
         "dataset = tf.data.Dataset.from_tensor_slices(tf.zeros((8, 2))).batch(2)\n"
         "model = tf.keras.Sequential([tf.keras.Input(shape=(2,)), tf.keras.layers.Dense(1)])\n"
         "optimizer = tf.keras.optimizers.SGD(0.1)\n@tf.function\ndef step(x):\n" +
         std::string(draws ? "    x = x + tf.random.normal(tf.shape(x))\n" : "") +
         "    with tf.GradientTape() as tape:\n        loss = tf.reduce_mean(model(x))\n"
         "    gradients = tape.gradient(loss, model.trainable_variables)\n"
         "    optimizer.apply_gradients(zip(gradients, model.trainable_variables))\n    return loss\n"
         "for epoch in range(2):\n    for n, x in " +
         iterable + ":\n        loss = step(x)\n        if n % 2 == 0:\n            print(n)\n";
}

TEST_F(WeaveKeras, CountsOutsideADistributedDataset) {
  const std::string woven = weave(tape_loop("dataset.enumerate()", false), "--target tf-distribute").out;
  EXPECT_TRUE(says(woven, "for n, x in enumerate(distributed_dataset):"));
  const std::string horovod = weave(tape_loop("dataset.enumerate()", false), "--target horovod").out;
  EXPECT_TRUE(says(horovod, "for n, x in dataset.enumerate():"));
  std::string tensor = tape_loop("dataset.enumerate()", false);
  tensor.replace(tensor.find("print(n)"), 8, "print(n.numpy())");
  const CommandResult refused = weave(tensor, "--target tf-distribute");
  EXPECT_EQ(refused.code, 3);
  EXPECT_TRUE(says(refused.err, "count with enumerate(dataset)"));
}

TEST_F(WeaveKeras, DrawsDifferentNoiseInTheProcessesUnderHorovod) {
  EXPECT_TRUE(says(weave(tape_loop("enumerate(dataset)", true), "--target horovod").out,
                   "tf.random.set_seed(4 + hvd.rank())\nfor epoch in range(2):"));
  EXPECT_EQ(weave(tape_loop("enumerate(dataset)", false), "--target horovod").out.find("4 + hvd"),
            std::string::npos);
  EXPECT_EQ(weave(tape_loop("enumerate(dataset)", true), "--target tf-distribute").out.find("set_seed(4 +"),
            std::string::npos);
}

TEST_F(WeaveKeras, PartsTheNoiseOnceBeforeTheLoopThatCallsTheTraining) {
  std::string script = tape_loop("enumerate(dataset)", true);
  const size_t loop = script.find("for epoch in range(2):");
  script = script.substr(0, loop) +
           "def train():\n    for n, x in enumerate(dataset):\n        loss = step(x)\n"
           "for epoch in range(2):\n    train()\n";
  EXPECT_TRUE(says(weave(script, "--target horovod").out,
                   "tf.random.set_seed(4 + hvd.rank())\nfor epoch in range(2):\n    train()"));
}

}  // namespace
}  // namespace telar::test
#endif
