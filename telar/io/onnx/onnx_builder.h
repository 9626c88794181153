#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "telar/graph/graph.h"
#include "telar/io/onnx/onnx.pb.h"

namespace telar {

/// Adds nodes and constants to a graph of an ONNX file. Values are known by their names; "" is an optional
/// input that is absent.
class OnnxBuilder {
 public:
  using Option = std::variant<int64_t, double, std::vector<int64_t>>;
  using Options = std::vector<std::pair<std::string, Option>>;
  using Names = std::vector<std::string>;

  explicit OnnxBuilder(onnx_format::GraphProto& graph) : graph_(graph) {}

  /// No value gets this name by itself.
  void reserve(const std::string& name) { reserved_.insert(name); }

  /// Of the nodes that follow: the layer to which they belong.
  void set_scope(const std::string& scope) { scope_ = scope; }

  /// Adds a node with one output, and returns its name.
  std::string add(const std::string& type, const Names& inputs, const Options& options = {});
  Names add_many(const std::string& type, const Names& inputs, size_t outputs, const Options& options = {});

  /// Constants of these shapes; a number has none.
  std::string number(double value);
  std::string numbers(const std::vector<double>& values, const std::vector<int64_t>& shape,
                      bool wide = false);
  std::string integers(const std::vector<int64_t>& values);

  /// The extents [begin, end) of a value's shape.
  std::string extents(const std::string& value, int64_t begin, int64_t end);
  std::string cast(const std::string& value, int32_t to) {
    return add("Cast", {value}, {{"to", int64_t{to}}});
  }

  /// A tensor whose bytes the caller fills in.
  onnx_format::TensorProto& tensor(const std::string& name, int32_t type, const std::vector<int64_t>& shape);

 private:
  std::string fresh();

  onnx_format::GraphProto& graph_;
  std::set<std::string> reserved_;
  std::string scope_;
  int64_t next_ = 0;
};

/// Element types of the format.
inline constexpr int32_t kOnnxF32 = 1, kOnnxI32 = 6, kOnnxI64 = 7, kOnnxF64 = 11;
inline int32_t onnx_type(DType dtype) { return dtype == DType::i32 ? kOnnxI32 : kOnnxF32; }

/// Adds what computes a node of `graph`, whose inputs have these names, and returns the names of its outputs.
/// Throws Error (user) for an operation that has no form in the file.
OnnxBuilder::Names add_onnx(OnnxBuilder& onnx, const Graph& graph, const Node& node,
                            const OnnxBuilder::Names& inputs);

}  // namespace telar
