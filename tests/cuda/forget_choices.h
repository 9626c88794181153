#pragma once

#include <functional>
#include <string>

namespace telar::test {

/// From here on no algorithm was ever chosen, as at the beginning of each test of this program.
void forget_choices();

/// Gives `chosen` what was chosen for what, in words, and keeps what it returns in its place.
void change_choices(
    const std::function<std::string(const std::string& what, const std::string& algorithm)>& chosen);

}  // namespace telar::test
