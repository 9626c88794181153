#pragma once

#include <string>

namespace telar {

/// Throws Error (user) with the line when a second YAML document begins in `text`. Asked before YAML::Load, which reads the first one
/// only; YAML::LoadAll of yaml-cpp 0.7 finds documents without end in some broken texts.
void require_one_document(const std::string& text, const std::string& source);

}  // namespace telar
