#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "telar/data/messages/message_format.h"

namespace telar {

/// The decoders of message_decoder() that have a file of their own. `format` has passed check().
std::unique_ptr<MessageDecoder> json_decoder(const MessageFormat& format);
std::unique_ptr<MessageDecoder> csv_decoder(const MessageFormat& format);
/// `schema`: what is in the file `format.schema`. Throws Error (user) if it is no schema, or not one of a
/// record with these fields.
std::unique_ptr<MessageDecoder> avro_decoder(const MessageFormat& format, std::string_view schema);
/// `descriptors`: what is in the file `format.descriptor`. Throws Error (user) like avro_decoder().
std::unique_ptr<MessageDecoder> protobuf_decoder(const MessageFormat& format, std::string_view descriptors);

/// The fields that a message with named fields must have: those of the features, then that of the label, if
/// it is read.
std::vector<std::string> fields_of(const MessageFormat& format);

}  // namespace telar
