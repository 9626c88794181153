#include <algorithm>

#include "cli/weave_case.h"

#ifdef TELAR_WEAVE
namespace telar::test {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// Weaves scripts in the forms that real files have.
class WeaveInput : public WeaveCase {};

TEST_F(WeaveInput, IndentsWithTabsIfTheScriptDoes) {
  const CommandResult woven = weave(replaced(script_, "    ", "\t"));
  EXPECT_EQ(woven.code, 0) << woven.err;
  EXPECT_TRUE(says(woven.out, "\tif dist.get_rank() == 0:\n\t\tprint("));
  EXPECT_TRUE(says(woven.out, "\n\ttrain_loader.sampler.set_epoch(epoch)\n"));
}

TEST_F(WeaveInput, AcceptsALastLineWithoutALineEnd) {
  std::string open = script_;
  while (open.ends_with('\n')) open.pop_back();
  const CommandResult woven = weave(open);
  EXPECT_EQ(woven.code, 0) << woven.err;
  EXPECT_TRUE(woven.out.ends_with("dist.barrier()\ndist.destroy_process_group()"));
}

TEST_F(WeaveInput, AcceptsAFileOfFiftyThousandLines) {
  std::string text = script_.substr(0, script_.find("import torch"));
  text += "import torch\n";
  for (int i = 0; i < 12500; ++i) {
    const std::string name = "table_" + std::to_string(i);
    text += name + " = {\n    \"rate\": " + std::to_string(i) + ",\n    \"names\": [\"a\", 'b'],\n}\n";
  }
  text += script_.substr(script_.find("import torch") + 13);
  EXPECT_GT(std::count(text.begin(), text.end(), '\n'), 50000);
  const CommandResult woven = weave(text, "--diff");
  EXPECT_EQ(woven.code, 0) << woven.err;
  EXPECT_TRUE(says(woven.out, "+model = DistributedDataParallel(model)"));
}

TEST_F(WeaveInput, FollowsATableThatIsBuiltFromItsOwnEntries) {
  const std::string entries = "x = [x[i], x[j], x[k], x[l], x[m]]\n";
  const CommandResult refused = weave("def turned(x, i, j, k, l, m):\n    " + entries +
                                      "    x.turn(x[0][i])\n    return x[i].done()\n");
  EXPECT_EQ(refused.code, 3);
  EXPECT_TRUE(says(refused.err, "not a training script"));
}

TEST_F(WeaveInput, DoesNotOverwriteFilesThatItCannotRead) {
  for (const std::string& text :
       {std::string("print 'two'\n"), std::string("# \xff\n"), std::string("def f(:\n"),
        std::string("# -*- coding: klingon -*-\n"), std::string("\tx = 1\n        y = 2\n")}) {
    EXPECT_EQ(weave(text, "--in-place").code, 2) << text;
    EXPECT_EQ(read_text(folder_ / "train.py"), text);
  }
}

TEST_F(WeaveInput, ReportsCodeThatPythonsCompilerRefuses) {
  const std::vector<std::pair<std::string, std::string>> scripts = {
      {"x = 1\nif x:\n    return x\n", "line 3\n    return x\n    ^\nSyntaxError: 'return' outside function"},
      {"class A:\n    yield 1\n", "line 2\n    yield 1\n    ^\nSyntaxError: 'yield' outside function"},
      {"é = (yield)\n", "line 1\n    é = (yield)\n         ^\nSyntaxError: 'yield' outside function"},
      {"for x in []:\n    pass\nelse:\n    break\n",
       "line 4\n    break\n    ^\nSyntaxError: 'break' outside loop"},
      {"while True:\n    def f():\n        continue\n",
       "line 3\n    continue\n    ^\nSyntaxError: 'continue' not properly in loop"}};
  for (const auto& [text, report] : scripts) {
    const CommandResult broken = weave(text);
    EXPECT_EQ(broken.code, 2) << text;
    EXPECT_TRUE(says(broken.err, report)) << broken.err;
  }
}

TEST_F(WeaveInput, AcceptsStatementsWhereverPythonsCompilerDoes) {
  const std::string text =
      "def f():\n"
      "    while True:\n        for x in []:\n            break\n        else:\n            continue\n"
      "        try:\n            pass\n        finally:\n            break\n"
      "    class A((yield)):\n        g = lambda: (yield)\n"
      "        async def h(self):\n            async for y in self:\n                yield y\n                continue\n"
      "    return f\n";
  const CommandResult refused = weave(text);
  EXPECT_EQ(refused.code, 3);
  EXPECT_TRUE(says(refused.err, "not a training script")) << refused.err;
}

}  // namespace
}  // namespace telar::test
#endif
