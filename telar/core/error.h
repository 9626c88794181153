#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace telar {

/// The only exception class of the library. Its text is a sentence for the user: what was wrong, where (file,
/// line, key, tensor, shapes), and what would be right. The library throws it; it never aborts and never
/// prints.
class Error : public std::runtime_error {
 public:
  /// `user`: the user can fix it by changing the input (exit code 2). `run`: nobody could have prevented it
  /// before the run (exit code 1).
  enum class Kind { user, run };

  Error(Kind kind, const std::string& sentence) : std::runtime_error(sentence), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

/// A mistake in the user's input: job, data, checkpoint or model. `throw user_error("… {} …", value);`
template <typename... Args>
Error user_error(fmt::format_string<Args...> format, Args&&... args) {
  return {Error::Kind::user, fmt::format(format, std::forward<Args>(args)...)};
}

/// A failure of the run: a full disk, a lost peer, a loss that became NaN, or a bug of ours.
template <typename... Args>
Error run_error(fmt::format_string<Args...> format, Args&&... args) {
  return {Error::Kind::run, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace telar
