#include "telar/observe/tensorboard.h"

#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <utility>

#include "telar/core/error.h"
#include "telar/observe/process.h"
#include "telar/observe/protobuf_wire.h"
#include "telar/observe/tfrecord.h"

namespace telar {
namespace {

constexpr size_t kWriteAt = size_t{64} << 10;

// Field numbers from tensorflow/core/util/event.proto and
// core/framework/{summary,graph,node_def,attr_value}.proto.
namespace event {
constexpr int kWallTime = 1;
constexpr int kStep = 2;
constexpr int kFileVersion = 3;
constexpr int kGraphDef = 4;
constexpr int kSummary = 5;
constexpr int kSessionLog = 7;
}  // namespace event
namespace summary {
constexpr int kValue = 1;
constexpr int kTag = 1;
constexpr int kSimpleValue = 2;
}  // namespace summary
namespace node_def {
constexpr int kName = 1;
constexpr int kOp = 2;
constexpr int kInput = 3;
constexpr int kDevice = 4;
constexpr int kAttribute = 5;
}  // namespace node_def

WireMessage attribute(const std::string& key, const WireMessage& value) {
  return WireMessage().text(1, key).message(2, value);
}

/// AttrValue{list{shape{dim{size}}}}: TensorBoard shows it on the edges.
WireMessage shapes_attribute(const std::vector<Shape>& shapes) {
  WireMessage list;
  for (const Shape& shape : shapes) {
    WireMessage dims;
    for (const int64_t extent : shape) dims.message(2, WireMessage().integer(1, extent));
    list.message(7, dims);
  }
  return attribute("_output_shapes", WireMessage().message(1, list));
}

WireMessage node_message(const GraphNode& node) {
  WireMessage message;
  message.text(node_def::kName, node.name).text(node_def::kOp, node.op);
  for (const std::string& input : node.inputs) message.text(node_def::kInput, input);
  message.text(node_def::kDevice, node.device);
  for (const auto& [key, value] : node.attributes) {
    message.message(node_def::kAttribute, attribute(key, WireMessage().text(2, value)));
  }
  if (!node.output_shapes.empty())
    message.message(node_def::kAttribute, shapes_attribute(node.output_shapes));
  return message;
}

OutputFile new_event_file(const std::filesystem::path& folder) {
  const std::string name =
      fmt::format("events.out.tfevents.{:010}.{}", static_cast<int64_t>(wall_time_now()), host_name());
  std::filesystem::path path = folder / name;
  std::error_code error;
  for (int i = 1; std::filesystem::exists(path, error); ++i) path = folder / fmt::format("{}.{}", name, i);
  return {path, OutputFile::Mode::create};
}

}  // namespace

double wall_time_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder) : file_(new_event_file(folder)) {
  add_event(WireMessage()
                .real64(event::kWallTime, wall_time_now())
                .text(event::kFileVersion, "brain.Event:2")
                .bytes());
  add_start(std::numeric_limits<int64_t>::max());
  flush();
}

TensorBoardWriter::~TensorBoardWriter() {
  try {
    flush();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): see the header
  }
}

void TensorBoardWriter::add_scalar(const std::string& tag, int64_t step, double value, double wall_time) {
  const WireMessage scalar =
      WireMessage().text(summary::kTag, tag).real32(summary::kSimpleValue, static_cast<float>(value));
  add_event(WireMessage()
                .real64(event::kWallTime, wall_time)
                .integer(event::kStep, step)
                .message(event::kSummary, WireMessage().message(summary::kValue, scalar))
                .bytes());
}

void TensorBoardWriter::add_graph(const std::vector<GraphNode>& nodes) {
  WireMessage graph;
  for (const GraphNode& node : nodes) graph.message(1, node_message(node));
  add_event(WireMessage().real64(event::kWallTime, wall_time_now()).message(event::kGraphDef, graph).bytes());
}

void TensorBoardWriter::add_resume(int64_t step) { add_start(step + 1); }

void TensorBoardWriter::flush() {
  const std::string events = std::exchange(waiting_, {});
  file_.write(events);
}

void TensorBoardWriter::sync() {
  flush();
  file_.sync();
}

// TensorBoard takes the first start event in a folder as the beginning of the run. At each later one, it
// drops that step and all later ones. So every file begins with a start event that drops nothing.
void TensorBoardWriter::add_start(int64_t step) {
  constexpr int kStatus = 1;
  constexpr int64_t kStart = 1;
  add_event(WireMessage()
                .real64(event::kWallTime, wall_time_now())
                .integer(event::kStep, step)
                .message(event::kSessionLog, WireMessage().integer(kStatus, kStart))
                .bytes());
}

void TensorBoardWriter::add_event(const std::string& event) {
  waiting_ += tfrecord(event);
  if (waiting_.size() >= kWriteAt) flush();
}

}  // namespace telar
