#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telar/core/attributes.h"
#include "telar/data/dataset.h"

namespace telar {

/// How a message holds one sample.
///
/// raw: the features one after another as `dtype`, then the label: one byte for up to 256 classes, an i32 for
/// more, f32 targets for none. Little-endian, without a header.
///
/// json: an object. `fields` are numbers, or arrays of numbers (nested or not), which follow each other;
/// `label` is a number, or an array of targets. Each of them is in the message once. Nothing is nested more
/// than 32 levels deep.
///
/// csv: one line of numbers, of which column `label` is the label.
struct MessageFormat {
  std::string name = "raw";
  std::string dtype = "f32";  ///< raw: "u8" (v / 255 as f32), "f32" or "i32" (token ids)
  SampleSpec spec = {};
  int64_t vocabulary = 0;                   ///< i32: ids are 0 … vocabulary - 1
  std::vector<std::string> fields = {"x"};  ///< json
  std::string label = {};                   ///< json: empty is "label"; csv: empty is the last column
  char separator = ',';                     ///< csv
};

/// The names of all formats.
const std::vector<std::string>& message_format_names();

/// Throws Error (user) for an unknown format, and one that does not suit its samples.
void check(const MessageFormat& format);

/// The format that the options of a source of messages describe.
MessageFormat message_format_of(const Attributes& options);

/// Reads samples from messages. It keeps memory for the next message: one thread at a time.
class MessageDecoder {
 public:
  virtual ~MessageDecoder() = default;
  /// Writes the sample of a message as Dataset::read() does. Throws Error (user) that says what is wrong with
  /// the message, not where it comes from.
  virtual void decode(std::string_view message, std::span<std::byte> features,
                      std::span<std::byte> label) = 0;
};

/// Throws Error (user) like check().
std::unique_ptr<MessageDecoder> message_decoder(const MessageFormat& format);

/// Replaces `message` by one with this sample. Throws Error (user) for values that the format cannot hold,
/// such as 0.3 as u8.
void encode_message(const MessageFormat& format, std::span<const std::byte> features,
                    std::span<const std::byte> label, std::string& message);

}  // namespace telar
