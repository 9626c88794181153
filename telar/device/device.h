#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/device/layout.h"
#include "telar/graph/graph.h"

namespace telar {

/// What the first (or only) run of a gradient graph in a step does with the gradient buffers.
enum class Accumulation : uint8_t {
  overwrite,  ///< replaces what they hold: kernels write straight into them
  add         ///< adds: further micro-batches of the same step
};

/// One operation of an executable, for messages and profiles.
struct OperationName {
  std::string scope;  ///< the layer; may be empty
  std::string op;     ///< "conv2d"; "conv2d (reorder)" for bringing a value into the layout that it wants
  bool backward = false;
};

/// The host's part in a run: the device calls back where a graph communicates, and between operations.
class HostOperations {
 public:
  virtual ~HostOperations() = default;
  /// Executes a communication node; `memory` is the value it works on, in place (empty for bucket
  /// operations).
  virtual void communicate(const Node& node, std::span<float> memory) = 0;
  /// Called between operations, so that communication makes progress while the device computes.
  virtual void poll() {}
  /// Whether the host is to be told of each operation; asked when a run begins.
  virtual bool listens() const { return false; }
  /// Told right after each operation but communicate(). The name lives as long as the executable.
  virtual void ran(const OperationName& /*operation*/) {}
  /// As Group::sums_on_device(): what communicate() sums holds the device up until others have come.
  virtual bool sums_on_device() const { return false; }
  /// Told what makes the run slower than it could be: a sentence without a full stop.
  virtual void warn(const std::string& /*text*/) {}
};

/// Which part of a graph with a `pause` runs (telar/graph/ops/stage.h).
enum class Phase : uint8_t { whole, before_pause, after_pause };

/// Memory that a device computes in, zeroed at first and given back at its end: of the host for a processor,
/// its own for a GPU.
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

/// The long-lived memory, of the device, that a graph's parameters and buffers refer to.
struct Bindings {
  std::byte* parameters = nullptr;  ///< arena
  std::byte* gradients = nullptr;   ///< arena; null when the graph has no gradients
  float* metrics = nullptr;         ///< in the order of CompileOptions::metrics
  std::span<std::byte>
      activations;  ///< at least Executable::activation_bytes; contexts that never run at once may share it
  /// Executable::prepared_bytes of memory, which contexts of one executable share.
  std::byte* prepared = nullptr;
  /// Where this run's samples of each value lie that goes from graph to graph, by name; null when the graph
  /// has none.
  const std::map<std::string, std::byte*>* delivered = nullptr;
};

/// Time that one operation took.
struct OperationTime {
  std::string scope;
  std::string op;
  double seconds = 0;
};

/// An executable bound to memory: what is needed for one run in flight. Not for two threads at once.
class Context {
 public:
  virtual ~Context() = default;
  /// Where an input lies in the host's memory: contiguous, canonical, of the graph's type. A processor reads
  /// it there during the following runs; a device with memory of its own copies it now, so that it has to be
  /// set again when it has changed.
  virtual void set_input(const std::string& name, const void* memory) = 0;
  /// A processor has run when this returns; a device that works beside the host has been told to:
  /// Device::synchronise waits for it.
  virtual void run(HostOperations& host, Phase phase = Phase::whole) = 0;
  /// Brings the parameters that this part reads in another layout into it, for every context of the
  /// executable: once after each update, before the first run. Needed with
  /// CompileOptions::prepare_parameters.
  virtual void prepare(Phase phase) = 0;
  /// Runs and looks at every result: the layer and operation in which a NaN or infinity is first seen.
  virtual std::optional<std::string> find_non_finite(HostOperations& host, Phase phase = Phase::whole) = 0;
  /// The value of a graph output after run, which it waits for, in canonical layout, f32.
  virtual std::vector<float> output(const std::string& name) = 0;
};

/// A graph compiled for a device: kernels, layouts, memory plan. Immutable.
class Executable {
 public:
  virtual ~Executable() = default;
  /// The layout of every parameter that the graph uses, in order of first use.
  virtual const std::vector<std::pair<std::string, TensorLayout>>& parameter_layouts() const = 0;
  /// Bytes of the memory plan.
  virtual size_t activation_bytes() const = 0;
  /// Bytes of parameters in other layouts, with CompileOptions::prepare_parameters.
  virtual size_t prepared_bytes() const = 0;
  /// The layouts of values that go from graph to graph and whose layout was left to this graph, for its
  /// batch.
  virtual const std::map<std::string, TensorLayout>& delivered_layouts() const = 0;
  /// The layout given to the constructor of the arenas must agree with parameter_layouts.
  virtual std::unique_ptr<Context> bind(const ArenaLayout& arena, const Bindings& bindings) const = 0;
};

/// Inputs of an update, f32.
struct UpdateScalars {
  float learning_rate = 0;
  float samples = 0;  ///< global count of the step
  float step = 1;     ///< 1 for the first update
};

/// The memory, of the device, of an update: arenas of one layout.
struct UpdateBindings {
  std::byte* parameters = nullptr;
  const std::byte* gradients = nullptr;
  std::vector<std::byte*> states;  ///< in the order of Updater::state_slots
  size_t gradients_begin = 0;      ///< byte of the arena at which `gradients` begins
  /// Memory of the device that is no longer 0 once a gradient was not finite; with it apply returns true, and
  /// does not wait.
  float* non_finite = nullptr;
  /// Memory of the device, with `non_finite`: nothing is updated when it holds NaN or infinity, which sets
  /// `non_finite`, too, or when an earlier update has set `non_finite`.
  const float* loss = nullptr;
};

/// A compiled update graph. Element-wise over the arenas, so any range [begin, end) of bytes may be updated
/// alone and several threads may update different ranges at once.
class Updater {
 public:
  virtual ~Updater() = default;
  /// Σ g² over the part of [begin, end) that counts for clipping; 0 when the graph does not clip.
  virtual double sum_of_squares(const UpdateBindings& bindings, size_t begin, size_t end) const = 0;
  virtual bool clips() const = 0;
  /// `sum_of_squares`: over all ranges of all members. Ignored when the graph does not clip. False when a
  /// gradient in the range was NaN or infinite: the parameters are then non-finite. (A ReLU may hide such
  /// values from the loss.)
  virtual bool apply(const UpdateBindings& bindings, const UpdateScalars& scalars, double sum_of_squares,
                     size_t begin, size_t end) const = 0;
};

/// Names of the optimizer-state slots ("momentum", "adam_m" …) that an update graph needs, sorted.
std::vector<std::string> state_slots(const Graph& update);

struct CompileOptions {
  Accumulation accumulation = Accumulation::overwrite;
  const ArenaLayout* parameters = nullptr;  ///< layouts agreed before; null lets the device choose
  std::vector<std::string> metrics;         ///< order of the metric span, names without "metric/"
  /// A parameter that is read in another layout is brought into it by Context::prepare, not by each run.
  bool prepare_parameters = false;
  /// Layouts, for any batch, of values that go from graph to graph; one that is missing is chosen by the
  /// graph.
  const std::map<std::string, TensorLayout>* delivered = nullptr;
  /// GPUs may round the factors of f32 products and convolutions to TF32 (10 bits of mantissa); sums stay
  /// f32. Processors do not.
  bool tf32 = false;
};

/// A copy to the host's memory that a device makes beside what the host does.
class PendingCopy {
 public:
  virtual ~PendingCopy() = default;
  /// Throws Error (run) when something that the device was told before has failed.
  virtual bool done() const = 0;
  virtual void wait() const = 0;
};

/// Memory of the host that a device copies into while the host goes on, as long as this lives.
class PinnedHost {
 public:
  virtual ~PinnedHost() = default;
};

/// A processor with its memory. Compile and run on the thread that will use the result: a CPU device gives
/// its thread team to the thread that calls.
class Device {
 public:
  virtual ~Device() = default;
  /// "cpu:0-1", "cuda:0".
  virtual std::string name() const = 0;
  /// Makes the calling thread one of this device: team size, affinity.
  virtual void enter() const = 0;
  virtual std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& options) const = 0;
  virtual std::unique_ptr<Updater> compile_update(const Graph& update, const ArenaLayout& arena) const = 0;
  /// 64-byte aligned. Throws Error (run), with the size that was wanted and `what` for, when it is not to be
  /// had.
  std::unique_ptr<Memory> allocate(size_t bytes, const std::string& what = "what is computed") const {
    return make_memory(bytes, what);
  }
  /// Bytes that can still be had; none where nobody knows.
  virtual std::optional<size_t> free_memory() const { return std::nullopt; }
  /// "host", or "cuda:0": devices with equal names compute in the same memory.
  virtual std::string memory_name() const = 0;
  /// Without blanks: equal for the same device in every process, which may count GPUs otherwise.
  virtual std::string identity() const { return memory_name(); }
  /// Where what it has computed can be read, and written, without a copy.
  bool in_host_memory() const { return memory_name() == "host"; }
  /// Row-major, without padding: what all devices have in common.
  virtual TensorLayout plain_layout(const Shape& shape) const = 0;
  /// Between its memory and the host's, after what it was told to do before; the copy is there when they
  /// return.
  virtual void copy_out(const std::byte* memory, std::span<std::byte> host) const = 0;
  virtual void copy_in(std::span<const std::byte> host, std::byte* memory) const = 0;
  /// As copy_out, without waiting; `host` should be pinned, else it may wait after all. `beside`: the device
  /// computes meanwhile, and must not be told to change that memory before the copy is done.
  virtual std::unique_ptr<PendingCopy> start_copy_out(const std::byte* memory, std::span<std::byte> host,
                                                      bool beside) const = 0;
  /// Null where there is nothing to be done for it: `host` is as good as it is.
  virtual std::unique_ptr<PinnedHost> pin(std::span<std::byte> host) const = 0;
  /// In its memory, in the order of what it is told: zeroes bytes; adds f32 values, to[i] += from[i].
  virtual void zero(std::byte* memory, size_t bytes) const = 0;
  virtual void add(std::byte* to, const std::byte* from, size_t count) const = 0;
  /// Canonical f32 values, in the host's memory, of a tensor in the device's layout and memory, and back
  /// (padding is zeroed).
  virtual void read(const TensorLayout& layout, const std::byte* memory,
                    std::span<float> canonical) const = 0;
  virtual void write(const TensorLayout& layout, std::span<const float> canonical,
                     std::byte* memory) const = 0;
  /// Waits until all that this device was told to do is done; whoever reads a clock calls it before. Nothing
  /// to do where run() itself computes. Throws Error (run) when something of it has failed.
  virtual void synchronise() const {}

 private:
  virtual std::unique_ptr<Memory> make_memory(size_t bytes, const std::string& what) const = 0;
};

/// A CPU device on the given cores with a thread team of `threads`. An empty list of cores pins nothing.
std::unique_ptr<Device> make_cpu_device(int threads, std::vector<int> cores);

/// The GPU of this number, as CUDA counts them from 0 (telar/device/cuda.h says which there are). Loads the
/// module telar-cuda. Throws Error (user) with the reason when there is no such GPU, no driver, or no such
/// module here.
std::unique_ptr<Device> make_cuda_device(int number);

}  // namespace telar
