#pragma once

#include <string>

namespace telar {

/// A text as one word of a shell: in single quotes.
std::string shell_word(const std::string& text);

}  // namespace telar
