#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "../../fuzz/description_input.h"
#include "../../fuzz/run_files_input.h"
#include "../../fuzz/server_program_input.h"
#include "support/corpus.h"
#include "support/paths.h"

// Runs the fuzzers' corpora without the fuzzer, because scripts/fuzz needs clang and takes minutes.

namespace telar {
namespace {

using Reads = bool (*)(std::span<const uint8_t>);

/// A good input is accepted, a bad one refused; flipped bytes and truncations end nothing.
void run_corpus(const std::string& target, Reads reads) {
  std::mt19937 random(7);
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(test::fuzz_corpus()) / target)) {
    const std::string name = entry.path().filename().string();
    const std::vector<uint8_t> input = test::corpus(target, name);
    EXPECT_EQ(reads(input), name.starts_with("good_")) << target << "/" << name;
    for (int i = 0; i < 200; ++i) {
      std::vector<uint8_t> damaged = input;
      damaged[random() % damaged.size()] = static_cast<uint8_t>(random());
      if (i % 4 == 0) damaged.resize(random() % damaged.size());
      reads(damaged);
    }
  }
}

TEST(RunFilesInput, State) { run_corpus("state", fuzz::read_state); }
TEST(RunFilesInput, Samples) { run_corpus("samples", fuzz::read_samples); }
TEST(RunFilesInput, DataRecord) { run_corpus("data_record", fuzz::read_data_record); }
TEST(RunFilesInput, Description) { run_corpus("description", fuzz::read_description); }
TEST(RunFilesInput, ServerProgram) { run_corpus("server_program", fuzz::read_server_program); }
TEST(RunFilesInput, Job) { run_corpus("run_job", fuzz::read_run_job); }

}  // namespace
}  // namespace telar
