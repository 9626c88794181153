#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace telar::cli {

/// Rows of cells as lines. Each column is as wide as its widest cell; columns from `numbers` on are
/// right-aligned.
std::string table_text(const std::vector<std::vector<std::string>>& rows, size_t numbers);

/// Number of characters of a text in UTF-8.
size_t text_width(const std::string& text);

/// "11,689,512".
std::string grouped(int64_t number);

}  // namespace telar::cli
