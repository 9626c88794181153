#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telar/data/message_format.h"

namespace telar {

/// The decoders of message_decoder() that have a file of their own. `format` has passed check().
std::unique_ptr<MessageDecoder> json_decoder(const MessageFormat& format);
std::unique_ptr<MessageDecoder> csv_decoder(const MessageFormat& format);

/// The fields that a JSON message must have: those of the features, then that of the label.
std::vector<std::string> json_fields(const MessageFormat& format);

}  // namespace telar
