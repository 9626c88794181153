#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/paths.h"

namespace telar::test {

/// The bytes of fuzz/corpus/TARGET/NAME.
inline std::vector<uint8_t> corpus(const std::string& target, const std::string& name) {
  std::ifstream file(std::filesystem::path(fuzz_corpus()) / target / name, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace telar::test
