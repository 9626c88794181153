#pragma once

#include <functional>
#include <string>

namespace telar::test {

/// Forgets all chosen algorithms, as at the beginning of each test in this program.
void forget_choices();

/// Calls `chosen` with each description and the algorithm chosen for it. Its result replaces that algorithm.
void change_choices(
    const std::function<std::string(const std::string& what, const std::string& algorithm)>& chosen);

}  // namespace telar::test
