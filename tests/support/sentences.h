#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "telar/core/error.h"

/// Checks of error messages.
namespace telar::test {

inline testing::AssertionResult says(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

/// The message of the error that the action throws; empty if it throws none.
inline std::string sentence_of(const std::function<void()>& action, Error::Kind kind = Error::Kind::user) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "";
}

/// Expects that the action throws an error whose message contains all these parts.
inline void expect_error(const std::function<void()>& action, const std::vector<std::string_view>& parts,
                         Error::Kind kind = Error::Kind::user) {
  const std::string sentence = sentence_of(action, kind);
  if (sentence.empty())
    ADD_FAILURE() << "nothing was thrown; expected a message that contains '" << parts.front() << "'";
  for (const std::string_view part : parts) EXPECT_TRUE(says(sentence, part));
}

}  // namespace telar::test
