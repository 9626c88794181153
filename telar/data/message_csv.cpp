#include "telar/core/error.h"
#include "telar/data/csv.h"
#include "telar/data/message_decoders.h"

namespace telar {

namespace {

class CsvDecoder final : public MessageDecoder {
 public:
  explicit CsvDecoder(const MessageFormat& format)
      : features_(format.spec.features),
        line_({.header = CsvHeader::absent,
               .label = format.label,
               .separator = format.separator,
               .classes = format.spec.classes},
              format.labelled, features_.elements(), "the message") {}

  void decode(std::string_view message, std::span<std::byte> features, std::span<std::byte> label) override {
    const size_t found = line_.take(message);
    if (found != features.size() / sizeof(float))
      throw user_error("the message has {} features; {} need {}", found, features_.str(),
                       features_.elements());
    line_.read(as_floats(features), label);
  }

 private:
  Shape features_;
  CsvLine line_;
};

}  // namespace

std::unique_ptr<MessageDecoder> csv_decoder(const MessageFormat& format) {
  return std::make_unique<CsvDecoder>(format);
}

}  // namespace telar
