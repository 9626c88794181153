#include "telar/data/tables/csv.h"

#include <string_view>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  telar::CsvOptions options;
  options.header = (data[0] & 1U) != 0 ? telar::CsvHeader::automatic : telar::CsvHeader::absent;
  if ((data[0] & 64U) != 0) options.use = telar::CsvUse::predict;
  if ((data[0] & 128U) != 0) options.columns = {"a", "b"};
  options.classes = data[0] >> 1U & 3U;
  options.separator = ",;\t "[data[0] >> 3U & 3U];
  if ((data[0] & 32U) != 0) options.label = std::to_string(data[1] % 5 - 2);
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  telar::fuzz::read_ends([&] { return telar::csv_from_text(text, options, "table").samples; });
  return 0;
}
