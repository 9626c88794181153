#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telar/core/attributes.h"
#include "telar/data/dataset.h"
#include "telar/data/normalised.h"

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
///
/// avro: a record in Avro's binary encoding, without its schema, which is in the file `schema`. `fields` and
/// `label` are fields of the record like those of json; the symbol of an enum is its number.
///
/// protobuf: a message of the type `message`, which the file `descriptor` describes. Its fields are like
/// those of json; one without presence has its default if the message lacks it.
///
/// With `schema_ids`, messages of both begin with a 0 and one of these numbers (four bytes, the high one
/// first), as Confluent's serializers write; in protobuf, the indices of `message` in its file follow.
struct MessageFormat {
  std::string name = "raw";
  std::string dtype = "f32";  ///< raw: "u8" (v / 255 as f32), "f32" or "i32" (token ids)
  SampleSpec spec = {};
  int64_t vocabulary = 0;                   ///< i32: ids are 0 … vocabulary - 1
  std::vector<std::string> fields = {"x"};  ///< json, avro, protobuf
  std::string label = {};   ///< json, avro, protobuf: empty is "label"; csv: empty is the last column
  char separator = ',';     ///< csv
  std::string schema = {};  ///< avro: a file
  std::vector<int64_t> schema_ids = {};  ///< avro, protobuf
  std::string descriptor = {};           ///< protobuf: a file, as protoc --descriptor_set_out writes it
  std::string message = {};              ///< protobuf: with its package, "shop.Event"
  /// False: a message may lack its label, and no label is read. A message of csv then has one number more
  /// than features, or as many.
  bool labelled = true;
};

/// The names of all formats.
const std::vector<std::string>& message_format_names();
/// Those in which encode_message() writes.
const std::vector<std::string>& written_format_names();

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

/// Throws Error (user) like check(), and for a schema or a descriptor that cannot be read, or lacks a field.
std::unique_ptr<MessageDecoder> message_decoder(const MessageFormat& format);
/// The same, for samples whose features are normalised. Throws Error (user) like Normaliser, too.
std::unique_ptr<MessageDecoder> message_decoder(MessageFormat format, FeatureScale scale);

/// Throws Error (user) for a format in which no messages are written, and for fields that the samples do not
/// have: of json, one for all features or one for each.
void check_written(const MessageFormat& format);

/// Replaces `message` by one with this sample, in a format that has passed check_written(). Throws Error
/// (user) for values that the format cannot hold, such as 0.3 as u8. Wide features are for text only.
void encode_message(const MessageFormat& format, std::span<const std::byte> features,
                    std::span<const std::byte> label, std::string& message);

}  // namespace telar
