#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "telar/core/error.h"

/// What is said when something is wrong.
namespace telar::test {

inline testing::AssertionResult says(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

/// The sentence of the error that the action throws; empty when it throws none.
inline std::string sentence_of(const std::function<void()>& action, Error::Kind kind = Error::Kind::user) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "";
}

/// The action must throw an error whose sentence holds all these parts.
inline void expect_error(const std::function<void()>& action, const std::vector<std::string_view>& parts,
                         Error::Kind kind = Error::Kind::user) {
  const std::string sentence = sentence_of(action, kind);
  if (sentence.empty())
    ADD_FAILURE() << "nothing was thrown; expected a sentence with '" << parts.front() << "'";
  for (const std::string_view part : parts) EXPECT_TRUE(says(sentence, part));
}

}  // namespace telar::test
