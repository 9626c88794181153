#include "telar/runtime/server_update.h"

#include "telar/core/error.h"
#include "telar/device/device.h"
#include "telar/io/server_program.h"
#include "telar/runtime/stored_pieces.h"

namespace telar {

namespace {

/// The variables of a parameter server as an arena of its device: the same offsets, in bytes.
ArenaLayout arena_of(const ServerProgram& program, const StoreLayout& layout) {
  ArenaLayout arena;
  for (size_t p = 0; p < program.pieces.size(); ++p) {
    const Piece& piece = program.pieces[p];
    const auto bytes = static_cast<size_t>(piece.floats()) * sizeof(float);
    arena.entries.push_back({piece.name(),
                             layout.offsets[p] * sizeof(float),
                             {piece.piece_shape(), bytes, "canonical", nullptr}});
  }
  arena.bytes = layout.floats * sizeof(float);
  return arena;
}

class ProgramUpdate final : public StoreUpdate {
 public:
  ProgramUpdate(ServerProgram program, const StoreLayout& layout)
      : program_(std::move(program)),
        slots_(state_slots(program_.update)),
        device_(make_cpu_device(1, {})),
        updater_(device_->compile_update(program_.update, arena_of(program_, layout))) {}

  const std::vector<std::string>& slots() const override { return slots_; }

  bool apply(const Memory& memory, size_t begin, size_t end, const float* gradient,
             const StoreScalars& scalars) const override {
    device_->enter();  // on the thread that serves the worker
    UpdateBindings bindings{reinterpret_cast<std::byte*>(memory.parameters),
                            reinterpret_cast<const std::byte*>(gradient),
                            {},
                            begin * sizeof(float)};
    for (float* state : memory.states) bindings.states.push_back(reinterpret_cast<std::byte*>(state));
    return updater_->apply(bindings, {scalars.learning_rate, scalars.samples, scalars.step}, 0,
                           begin * sizeof(float), end * sizeof(float));
  }

  std::string difference(const std::string& description) const override {
    return telar::difference(program_, server_program_from_json(description, "the program of the run"));
  }

 private:
  ServerProgram program_;
  std::vector<std::string> slots_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Updater> updater_;
};

std::unique_ptr<StoreUpdate> make_update(const std::string& text, const StoreLayout& layout) {
  ServerProgram program = server_program_from_json(text, "the program for this server");
  if (stored_layout(program.pieces) != layout)
    throw user_error(
        "the pieces of the program for this server are not those that it is to hold; do all processes have the same version?");
  return std::make_unique<ProgramUpdate>(std::move(program), layout);
}

}  // namespace

StoreUpdateFactory program_updates() { return make_update; }

}  // namespace telar
