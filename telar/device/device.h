#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/core/error.h"
#include "telar/device/layout.h"
#include "telar/graph/graph.h"

namespace telar {

/// What the first (or only) run of a gradient graph in a training step does with the gradient buffers.
enum class Accumulation : uint8_t {
  overwrite,  ///< replaces their contents: kernels write directly into them
  add         ///< adds to them: later micro-batches of the same step
};

/// One operation of an executable, for error messages and profiles.
struct OperationName {
  std::string scope;  ///< the layer; may be empty
  std::string op;     ///< "conv2d"; "conv2d (reorder)" for a conversion to the layout that it needs
  bool backward = false;
};

/// What the host does during a run: the device calls it for communication nodes and between operations.
class HostOperations {
 public:
  virtual ~HostOperations() = default;
  /// Executes a communication node. `memory` is the value, updated in place (empty for bucket operations).
  virtual void communicate(const Node& node, std::span<float> memory) = 0;
  /// Row-major values: a node's inputs, and its outputs.
  using Inputs = std::span<const std::span<const std::byte>>;
  using Outputs = std::span<const std::span<std::byte>>;
  /// Executes a node that exchanges samples or parameters (Op::exchanges_samples, ::exchanges_parameters):
  /// reads its inputs and fills its outputs. The default throws Error (run).
  virtual void exchange(const Node& node, Inputs /*inputs*/, Outputs /*outputs*/) {
    throw run_error("{}: nothing here exchanges values with other workers", node.op->name());
  }
  /// Called between operations, so that communication progresses while the device computes.
  virtual void poll() {}
  /// Whether ran() is called after each operation; queried when a run begins.
  virtual bool listens() const { return false; }
  /// Called after each operation except communication nodes. The name lives as long as the executable.
  virtual void ran(const OperationName& /*operation*/) {}
  /// As Group::sums_on_device(): sums that communicate() starts make the device wait for the other members.
  virtual bool sums_on_device() const { return false; }
  /// Reports something that slows the run down, without a full stop.
  virtual void warn(const std::string& /*text*/) {}
};

/// Which part of a graph with a `pause` node runs (telar/graph/ops/stage.h).
enum class Phase : uint8_t { whole, before_pause, after_pause };

/// Memory that a device computes in: host memory for a CPU device, GPU memory for a GPU. Zeroed when
/// allocated, freed by the destructor.
class Memory {
 public:
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 protected:
  Memory(std::byte* data, size_t size) : data_(data), size_(size) {}
  std::byte* data_;
  size_t size_;
};

/// Device memory that the parameters and buffers of a graph refer to. It outlives single runs.
struct Bindings {
  std::byte* parameters = nullptr;  ///< an arena
  std::byte* gradients = nullptr;   ///< an arena; null when the graph has no gradients
  float* metrics = nullptr;         ///< in the order of CompileOptions::metrics
  /// Executable::activation_bytes or more. Contexts that never run at the same time may share it.
  std::span<std::byte> activations;
  /// Executable::prepared_bytes, shared by all contexts of one executable.
  std::byte* prepared = nullptr;
  /// By name: the memory of this run's samples of each value that is passed between graphs. Null when the
  /// graph has no such values.
  const std::map<std::string, std::byte*>* delivered = nullptr;
};

/// The time that one operation took.
struct OperationTime {
  std::string scope;
  std::string op;
  double seconds = 0;
};

/// An executable bound to memory: everything that one run in flight needs. Not thread-safe.
class Context {
 public:
  virtual ~Context() = default;
  /// Sets an input from host memory: contiguous, canonical layout, of the graph's type. A CPU device keeps
  /// the pointer and reads the memory during the following runs. A GPU copies it now, so set the input again
  /// when its contents change.
  virtual void set_input(const std::string& name, const void* memory) = 0;
  /// Runs the graph. A CPU device has finished when this returns. A GPU has only been given the work: wait
  /// with Device::synchronise.
  virtual void run(HostOperations& host, Phase phase = Phase::whole) = 0;
  /// Converts the parameters that this part reads in another layout, for all contexts of the executable. Call
  /// it after each update, before the first run. Required with CompileOptions::prepare_parameters.
  virtual void prepare(Phase phase) = 0;
  /// Runs and checks every result. Returns the layer and operation whose result is the first with a NaN or
  /// infinity; none when all are finite.
  virtual std::optional<std::string> find_non_finite(HostOperations& host, Phase phase = Phase::whole) = 0;
  /// The value of a graph output, in canonical layout, f32. Waits for the run.
  virtual std::vector<float> output(const std::string& name) = 0;
};

/// A graph compiled for a device: kernels, layouts and memory plan. Immutable.
class Executable {
 public:
  virtual ~Executable() = default;
  /// The layouts of all parameters that the graph uses, in order of first use.
  virtual const std::vector<std::pair<std::string, TensorLayout>>& parameter_layouts() const = 0;
  /// Size of the memory plan.
  virtual size_t activation_bytes() const = 0;
  /// Bytes of converted parameters, with CompileOptions::prepare_parameters.
  virtual size_t prepared_bytes() const = 0;
  /// The layouts, for this graph's batch, of the values passed between graphs whose layout this graph has
  /// chosen.
  virtual const std::map<std::string, TensorLayout>& delivered_layouts() const = 0;
  /// `arena` is the layout with which the arenas were allocated; it must agree with parameter_layouts.
  virtual std::unique_ptr<Context> bind(const ArenaLayout& arena, const Bindings& bindings) const = 0;
};

/// Scalar inputs of an update, f32.
struct UpdateScalars {
  float learning_rate = 0;
  float samples = 0;  ///< global number of samples in the step
  float step = 1;     ///< 1 for the first update
};

/// Device memory of an update: arenas of one layout.
struct UpdateBindings {
  std::byte* parameters = nullptr;
  const std::byte* gradients = nullptr;
  std::vector<std::byte*> states;  ///< in the order of Updater::state_slots
  size_t gradients_begin = 0;      ///< byte offset in the arena of gradients[0]
  size_t states_begin = 0;         ///< byte offset in the arena of the first byte of each of `states`
  /// Device memory, one f32 that becomes non-zero once a gradient is not finite. When it is set, apply
  /// returns true and does not wait.
  float* non_finite = nullptr;
  /// Device memory, only with `non_finite`: a NaN or infinity here sets `non_finite`. Nothing is updated
  /// then, nor when an earlier update has set `non_finite`.
  const float* loss = nullptr;
};

/// A compiled update graph. It works element by element on the arenas. So any range of bytes [begin, end) can
/// be updated on its own, and several threads may update different ranges at the same time.
class Updater {
 public:
  virtual ~Updater() = default;
  /// Σ g² over the elements of [begin, end) that count for clipping; 0 when the graph does not clip.
  virtual double sum_of_squares(const UpdateBindings& bindings, size_t begin, size_t end) const = 0;
  virtual bool clips() const = 0;
  /// `sum_of_squares` is the total of all ranges and members; ignored when the graph does not clip. Returns
  /// false when a gradient in the range was NaN or infinite: the parameters are then non-finite. (A ReLU may
  /// hide such values from the loss.)
  virtual bool apply(const UpdateBindings& bindings, const UpdateScalars& scalars, double sum_of_squares,
                     size_t begin, size_t end) const = 0;
};

/// The names of the optimizer-state slots ("momentum", "adam_m" …) that an update graph needs, sorted.
std::vector<std::string> state_slots(const Graph& update);

struct CompileOptions {
  Accumulation accumulation = Accumulation::overwrite;
  const ArenaLayout* parameters = nullptr;  ///< layouts agreed on before; null: the device chooses
  std::vector<std::string> metrics;         ///< the names of the metrics, in their order
  /// Context::prepare converts parameters that are read in another layout; otherwise each run converts them.
  bool prepare_parameters = false;
  /// Layouts, for any batch size, of values passed between graphs. The graph chooses those that are missing.
  const std::map<std::string, TensorLayout>* delivered = nullptr;
  /// A GPU may round f32 operands of products and convolutions to TF32 (10 bits of mantissa); sums stay f32.
  /// CPU devices ignore it.
  bool tf32 = false;
  /// The inputs or parameters have NaN or infinities. Results then have them as the formulas say, also where
  /// a CPU's kernels would make numbers of them. A GPU's keep them.
  bool non_finite = false;
};

/// An asynchronous copy to host memory.
class PendingCopy {
 public:
  virtual ~PendingCopy() = default;
  /// Throws Error (run) when work that was submitted to the device before has failed.
  virtual bool done() const = 0;
  virtual void wait() const = 0;
};

/// Keeps host memory pinned, for asynchronous copies, as long as it lives.
class PinnedHost {
 public:
  virtual ~PinnedHost() = default;
};

/// A CPU or GPU with its memory. Compile and run on the thread that will use the result: a CPU device binds
/// its thread team to the calling thread.
class Device {
 public:
  virtual ~Device() = default;
  /// "cpu:0-1", "cuda:0".
  virtual std::string name() const = 0;
  /// Prepares the calling thread for this device: team size, core affinity, current GPU.
  virtual void enter() const = 0;
  virtual std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& options) const = 0;
  virtual std::unique_ptr<Updater> compile_update(const Graph& update, const ArenaLayout& arena) const = 0;
  /// Zeroed, 64-byte aligned. When there is not enough memory, throws Error (run) with the size and `what`,
  /// the purpose.
  std::unique_ptr<Memory> allocate(size_t bytes, const std::string& what = "computed values") const {
    return make_memory(bytes, what);
  }
  /// Bytes that are free; none when unknown.
  virtual std::optional<size_t> free_memory() const { return std::nullopt; }
  /// "host" or "cuda:0". Devices with equal names share their memory.
  virtual std::string memory_name() const = 0;
  /// Without blanks. The same device has the same identity in every process, even if the processes number
  /// GPUs differently.
  virtual std::string identity() const { return memory_name(); }
  /// Whether the host can read and write the device's memory without a copy.
  bool in_host_memory() const { return memory_name() == "host"; }
  /// Row-major, without padding: the layout that all devices support.
  virtual TensorLayout plain_layout(const Shape& shape) const = 0;
  /// A layout as bytes, and back in another process of the same program on the same kind of device. Throws
  /// Error (run) on devices whose layouts do not pass to other processes, and for other bytes.
  virtual std::string packed(const TensorLayout& layout) const;
  virtual TensorLayout unpacked(const std::string& bytes) const;
  /// Copies between device memory and host memory, after the work submitted so far. Returns when the copy is
  /// complete.
  virtual void copy_out(const std::byte* memory, std::span<std::byte> host) const = 0;
  virtual void copy_in(std::span<const std::byte> host, std::byte* memory) const = 0;
  /// As copy_out, but returns at once if `host` is pinned; otherwise it may wait. With `beside` the device
  /// computes further work during the copy; that work must not change `memory` before the copy is done.
  virtual std::unique_ptr<PendingCopy> start_copy_out(const std::byte* memory, std::span<std::byte> host,
                                                      bool beside) const = 0;
  /// Pins host memory for copies. Null when there is nothing to undo: the device does not need pinned memory,
  /// or pinning failed. Copies are correct in either case.
  virtual std::unique_ptr<PinnedHost> pin(std::span<std::byte> host) const = 0;
  /// Work in device memory, in order of submission: bytes become 0; to[i] += scale · from[i], f32.
  virtual void zero(std::byte* memory, size_t bytes) const = 0;
  virtual void add(std::byte* to, const std::byte* from, size_t count, float scale) const = 0;
  /// Copies a tensor from the device's memory and layout to canonical f32 values in host memory, and back
  /// (write zeroes the padding).
  virtual void read(const TensorLayout& layout, const std::byte* memory,
                    std::span<float> canonical) const = 0;
  virtual void write(const TensorLayout& layout, std::span<const float> canonical,
                     std::byte* memory) const = 0;
  /// Waits until all submitted work is done. Call it before reading a clock. Does nothing on devices whose
  /// run() computes before it returns. Throws Error (run) when some of the work has failed.
  virtual void synchronise() const {}

 private:
  virtual std::unique_ptr<Memory> make_memory(size_t bytes, const std::string& what) const = 0;
};

/// A CPU device with a team of `threads` threads on the given cores. With an empty list of cores, threads are
/// not pinned.
std::unique_ptr<Device> make_cpu_device(int threads, std::vector<int> cores);

/// The GPU with this number; CUDA counts from 0, and telar/device/cuda.h lists the GPUs. Loads the module
/// telar-cuda. Throws Error (user) with the reason when the GPU, the driver or the module is missing.
std::unique_ptr<Device> make_cuda_device(int number);

}  // namespace telar
