#pragma once

#include <string>

namespace telar {

/// Makes a peer's text safe for logs and terminals: no line ends, no control characters, limited length.
std::string printable(std::string text, size_t longest = 200);

}  // namespace telar
