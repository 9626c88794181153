#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace telar {

/// The one exception of the library. Its text is a sentence for the user: what was wrong, where (file, line,
/// key, tensor, shapes), what would be right. The library throws it; it never aborts and never prints.
class Error : public std::runtime_error {
 public:
  /// Who can mend it: the user by changing the input (exit code 2), or nobody before the run (exit code 1).
  enum class Kind { user, run };

  Error(Kind kind, const std::string& sentence) : std::runtime_error(sentence), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

/// A mistake in what the user gave: job, data, checkpoint, model. `throw user_error("… {} …", value);`
template <typename... Args>
Error user_error(fmt::format_string<Args...> format, Args&&... args) {
  return {Error::Kind::user, fmt::format(format, std::forward<Args>(args)...)};
}

/// A failure of the run: full disk, lost peer, loss that became NaN, a bug of ours.
template <typename... Args>
Error run_error(fmt::format_string<Args...> format, Args&&... args) {
  return {Error::Kind::run, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace telar
