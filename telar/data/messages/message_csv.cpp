#include "telar/core/error.h"
#include "telar/data/messages/message_decoders.h"
#include "telar/data/tables/csv.h"

namespace telar {

namespace {

class CsvDecoder final : public MessageDecoder {
 public:
  explicit CsvDecoder(const MessageFormat& format)
      : spec_(format.spec),
        line_({.header = CsvHeader::absent,
               .label = format.label,
               .separator = format.separator,
               .classes = format.spec.classes},
              format.labelled, spec_.features.elements(), "the message") {}

  void decode(std::string_view message, std::span<std::byte> features, std::span<std::byte> label) override {
    const auto found = static_cast<int64_t>(line_.take(message));
    if (found != spec_.features.elements())
      throw user_error("the message has {} features; {} need {}", found, spec_.features.str(),
                       spec_.features.elements());
    if (spec_.wide) return line_.read(as_doubles(features), label);
    line_.read(as_floats(features), label);
  }

 private:
  SampleSpec spec_;
  CsvLine line_;
};

}  // namespace

std::unique_ptr<MessageDecoder> csv_decoder(const MessageFormat& format) {
  return std::make_unique<CsvDecoder>(format);
}

}  // namespace telar
