#include "telar/data/texts/labelled_texts.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const auto use = (data[0] & 1U) != 0 ? telar::TextUse::predict : telar::TextUse::train;
  const std::string_view given(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const std::string_view text = telar::plain_text(given, "texts");
    if ((data[0] & 2U) != 0) {
      telar::texts_of_lines(text, "texts", use);
    } else {
      telar::texts_of_table(text, "texts", use, {"text", "label", ",;\t,"[data[0] >> 2U & 3U]});
    }
  } catch (const telar::Error&) {
    return 0;
  }
  return 0;
}
