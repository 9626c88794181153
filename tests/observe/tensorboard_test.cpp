#include "telar/observe/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>

#include "io/temp_folder.h"
#include "telar/observe/process.h"
#include "telar/observe/tfrecord.h"

namespace telar {
namespace {

using test::read_text;
using test::TempFolder;

/// A field of a protobuf message, decoded independently: numbers as their bits, the rest as bytes.
struct Field {
  uint64_t number = 0;
  std::string bytes;
};
using Fields = std::multimap<int, Field>;

uint64_t take(std::string_view& rest, size_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, rest.data(), bytes);
  rest.remove_prefix(bytes);
  return value;
}

uint64_t take_varint(std::string_view& rest) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(rest.at(0));
    rest.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80) return value;
  }
}

Fields decode(std::string_view rest) {
  Fields fields;
  while (!rest.empty()) {
    const uint64_t tag = take_varint(rest);
    Field field;
    switch (tag & 7U) {
      case 0: field.number = take_varint(rest); break;
      case 1: field.number = take(rest, 8); break;
      case 2: {
        const size_t length = take_varint(rest);
        field.bytes = rest.substr(0, length);
        rest.remove_prefix(length);
        break;
      }
      case 5: field.number = take(rest, 4); break;
      default: ADD_FAILURE() << "wire type " << (tag & 7U); return fields;
    }
    fields.emplace(static_cast<int>(tag >> 3), field);
  }
  return fields;
}

const Field& only(const Fields& fields, int number) {
  EXPECT_EQ(fields.count(number), 1U) << "field " << number;
  return fields.find(number)->second;
}

/// The events of a file. Checks the framing and its CRCs.
std::vector<Fields> read_events(const std::filesystem::path& path) {
  const std::string file = read_text(path);
  std::string_view rest = file;
  const auto masked = [](std::string_view bytes) {
    const uint32_t crc = crc32c(bytes);
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
  };
  std::vector<Fields> events;
  while (!rest.empty()) {
    const std::string_view head = rest.substr(0, 8);
    const size_t length = take(rest, 8);
    EXPECT_EQ(take(rest, 4), masked(head));
    events.push_back(decode(rest.substr(0, length)));
    const std::string_view data = rest.substr(0, length);
    rest.remove_prefix(length);
    EXPECT_EQ(take(rest, 4), masked(data));
  }
  return events;
}

TEST(Crc32c, EqualsTheValuesOfRfc3720) {
  std::string rising;
  std::string falling;
  for (int i = 0; i < 32; ++i) {
    rising.push_back(static_cast<char>(i));
    falling.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(rising), 0x46DD794EU);
  EXPECT_EQ(crc32c(falling), 0x113FDB5CU);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
}

TEST(TfRecord, EmptyRecordHasTheMaskedCrcsOfItsLengthAndData) {
  const std::string zeros(8, '\0');
  EXPECT_EQ(tfrecord(""), zeros + "\x29\x03\x98\x07" + "\xd8\xea\x82\xa2");
}

TEST(TensorBoard, AScalarHasTagStepAndTime) {
  TempFolder folder;
  TensorBoardWriter writer(folder.path());
  writer.add_scalar("train/loss", 300, 0.625, 1.7e9);
  writer.flush();
  const auto events = read_events(writer.path());
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(only(events[0], 3).bytes, "brain.Event:2");
  EXPECT_EQ(std::bit_cast<double>(only(events[2], 1).number), 1.7e9);
  EXPECT_EQ(only(events[2], 2).number, 300U);
  const auto value = decode(only(decode(only(events[2], 5).bytes), 1).bytes);
  EXPECT_EQ(only(value, 1).bytes, "train/loss");
  EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(only(value, 2).number)), 0.625F);
}

TEST(TensorBoard, EachStartOfARunHasItsOwnFile) {
  TempFolder folder;
  const TensorBoardWriter first(folder.path());
  const TensorBoardWriter second(folder.path());
  EXPECT_NE(first.path(), second.path());
  const std::string name = first.path().filename().string();
  EXPECT_TRUE(name.starts_with("events.out.tfevents.") && name.ends_with("." + host_name())) << name;
}

TEST(TensorBoard, AResumedRunStartsAfterItsStep) {
  TempFolder folder;
  TensorBoardWriter writer(folder.path());
  writer.add_resume(2000);
  writer.flush();
  const auto events = read_events(writer.path());
  ASSERT_EQ(events.size(), 3U);
  // TensorBoard ignores a folder's first start event; at each later one it drops the steps from there on.
  EXPECT_EQ(only(events[1], 2).number, 0x7FFFFFFFFFFFFFFFU);
  EXPECT_EQ(only(events[2], 2).number, 2001U);
  for (size_t i : {1U, 2U}) EXPECT_EQ(only(decode(only(events[i], 7).bytes), 1).number, 1U);
}

TEST(TensorBoard, TheGraphKeepsNodesInputsDevicesAndShapes) {
  TempFolder folder;
  TensorBoardWriter writer(folder.path());
  writer.add_graph({{"x", "Placeholder", {}, "", {}, {Shape{32, 784}}},
                    {"fc/linear", "linear", {"x"}, "/device:CPU:0", {{"bias", "true"}}, {}}});
  writer.flush();
  const auto graph = decode(only(read_events(writer.path()).at(2), 4).bytes);
  ASSERT_EQ(graph.count(1), 2U);
  const auto x = decode(graph.lower_bound(1)->second.bytes);
  const auto linear = decode(std::next(graph.lower_bound(1))->second.bytes);
  EXPECT_EQ(only(linear, 1).bytes, "fc/linear");
  EXPECT_EQ(only(linear, 2).bytes, "linear");
  EXPECT_EQ(only(linear, 3).bytes, "x");
  EXPECT_EQ(only(linear, 4).bytes, "/device:CPU:0");
  const auto attribute = decode(only(linear, 5).bytes);
  EXPECT_EQ(only(attribute, 1).bytes, "bias");
  EXPECT_EQ(only(decode(only(attribute, 2).bytes), 2).bytes, "true");
  // AttrValue.list.shape.dim[1].size
  const auto shapes = decode(only(decode(only(x, 5).bytes), 2).bytes);
  const auto dims = decode(only(decode(only(shapes, 1).bytes), 7).bytes);
  ASSERT_EQ(dims.count(2), 2U);
  EXPECT_EQ(only(decode(std::next(dims.lower_bound(2))->second.bytes), 1).number, 784U);
}

class Scale : public Op {
 public:
  std::string_view name() const override { return "scale"; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0], inputs[0]};
  }
};

TEST(GraphNodes, AreGroupedByLayerOnTheGivenDevice) {
  const Scale scale;
  GraphBuilder builder;
  const auto x = builder.input("x", {DType::f32, {4, 2}}, true);
  const auto weight = builder.parameter("layer1.0.weight", {DType::f32, {2}});
  builder.set_scope("layer1.0");
  const auto first = builder.add(scale, {x, weight}, {{"axis", int64_t{1}}});
  builder.add(scale, {first[1], kNoValue});
  const auto nodes = graph_nodes(builder.build(), "/device:CPU:0", "worker 0");

  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[0].name, "worker_0/x");
  EXPECT_EQ(nodes[0].op, "Placeholder");
  EXPECT_EQ(nodes[1].name, "worker_0/layer1/0/weight");
  EXPECT_EQ(nodes[1].op, "Variable");
  EXPECT_EQ(nodes[2].name, "worker_0/layer1/0/scale");
  EXPECT_EQ(nodes[2].inputs, (std::vector<std::string>{"worker_0/x", "worker_0/layer1/0/weight"}));
  EXPECT_EQ(nodes[2].attributes.at("axis"), "1");
  EXPECT_EQ(nodes[2].output_shapes, (std::vector<Shape>{{4, 2}, {4, 2}}));
  EXPECT_EQ(nodes[3].name, "worker_0/layer1/0/scale_1");
  EXPECT_EQ(nodes[3].inputs, std::vector<std::string>{"worker_0/layer1/0/scale:1"});
  for (const auto& node : nodes) EXPECT_EQ(node.device, "/device:CPU:0");
}

}  // namespace
}  // namespace telar
