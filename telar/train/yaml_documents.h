#pragma once

#include <string>

namespace telar {

/// Throws Error (user) with the line if a second YAML document begins in `text`. Call it before YAML::Load,
/// which reads only the first one. YAML::LoadAll of yaml-cpp 0.7 does not terminate on some malformed texts.
void require_one_document(const std::string& text, const std::string& source);

/// What is probably wrong in a text that the YAML parser refuses at this line (the first is 0), as the end
/// of a message; empty if nothing stands out.
std::string yaml_hint(const std::string& text, int line);

}  // namespace telar
