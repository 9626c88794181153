#pragma once

#include <string>

namespace telar {

/// Throws Error (user) with the line if a second YAML document begins in `text`. Call it before YAML::Load,
/// which reads only the first one. YAML::LoadAll of yaml-cpp 0.7 does not terminate on some malformed texts.
void require_one_document(const std::string& text, const std::string& source);

}  // namespace telar
