// What `telar weave --verify` refuses before it starts anything. tests/weave/check_verify.py runs it.
#include "cli/weave_case.h"

#ifdef TELAR_WEAVE
namespace telar::test {
namespace {

class WeaveVerify : public WeaveCase {
 protected:
  void SetUp() override { write_text(folder_ / "train.py", script_); }
  /// Expects that the command line is refused with these words.
  void expect_refused(const std::string& arguments, const std::string& words) const {
    const CommandResult result = telar("weave " + arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_TRUE(says(result.err, words)) << arguments << ": " << result.err;
  }
};

TEST_F(WeaveVerify, NeedsTheFlagForItsOptions) {
  for (const char* option :
       {"--steps 3", "--limit-samples 3", "--deadline 3", "--fake-data", "--woven train.py"})
    expect_refused(std::string("train.py ") + option, "are for --verify");
  expect_refused("--verify --steps 0 train.py", "--steps");
}

TEST_F(WeaveVerify, OnlyCompares) {
  for (const char* other :
       {"--run", "--diff", "--explain", "--check", "--describe", "--in-place", "-o out.py"})
    expect_refused(std::string("--verify train.py ") + other, "--verify only compares");
  expect_refused("--verify --processes 1 train.py", "at least 2 processes");
}

TEST_F(WeaveVerify, NeedsASequentialScriptAndItsTarget) {
  expect_refused("--verify --stdin <train.py", "need a file");
  expect_refused("--verify --target tf-distribute train.py", "tf-distribute is for Keras");
  expect_refused("--verify --target tf-distribute train.py --woven train.py", "tf-distribute is for Keras");
  expect_refused("--verify train.py --woven nowhere.py", "there is no file nowhere.py");
  expect_refused("--verify --project . train.py --woven train.py", "single script");
  ASSERT_EQ(telar("weave train.py -o parallel.py").code, 0);
  expect_refused("--verify parallel.py", "needs the sequential script");
}

TEST_F(WeaveVerify, GivesTheReasonOfARefusal) {
  write_text(folder_ / "plain.py", "print('no training')\n");
  EXPECT_EQ(telar("weave --verify plain.py").code, 3);
}

}  // namespace
}  // namespace telar::test
#endif
