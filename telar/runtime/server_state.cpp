#include "telar/runtime/server_state.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "telar/core/error.h"
#include "telar/io/server_program.h"
#include "telar/runtime/stored_pieces.h"

namespace telar {

namespace {

std::span<float> piece_in(std::span<float> arena, const StoreLayout& layout, size_t piece) {
  return arena.subspan(layout.offsets[piece], layout.pieces[piece].floats);
}

/// The arenas of a server: those of its slots, and that of the parameters, whose name is empty (as
/// StateName::slot).
std::vector<SlotName> arenas_of(const ServerProgram& server) {
  std::vector<SlotName> arenas = state_slots(server.update);
  arenas.emplace_back();
  return arenas;
}

}  // namespace

int64_t updates_after(const Program& program, int64_t steps) {
  for (const ScheduledAction& scheduled : program.kinds.front().schedule)
    if (scheduled.kind == action::kPushGradient || scheduled.kind == action::kPushDifference)
      return steps / scheduled.every;
  throw run_error("the workers of '{}' push nothing to servers", program.strategy);
}

void create_servers(const StoreProgram& program, const std::vector<Store*>& stores) {
  for (size_t s = 0; s < stores.size(); ++s) {
    stores[s]->create(stored_layout(program.servers[s].pieces), to_json(program.servers[s]));
    stores[s]->attach();
  }
}

void write_servers(const StoreProgram& program, const std::vector<Store*>& stores, const Session& session,
                   int64_t updates) {
  const std::vector<StateName> names = session.state_names();
  for (size_t s = 0; s < stores.size(); ++s) {
    const std::vector<Piece>& pieces = program.servers[s].pieces;
    const StoreLayout layout = stored_layout(pieces);
    for (const SlotName& slot : arenas_of(program.servers[s])) {
      std::vector<float> arena(layout.floats);
      for (size_t p = 0; p < pieces.size(); ++p) {
        const StateName name(pieces[p].variable, slot);
        if (std::find(names.begin(), names.end(), name) == names.end()) continue;
        pieces[p].take_from(session.read_state(name), piece_in(arena, layout, p));
      }
      stores[s]->write(slot, arena, updates);
    }
  }
}

int64_t read_servers(const StoreProgram& program, const std::vector<Store*>& stores, Session& session) {
  std::optional<int64_t> updates;
  std::map<std::pair<SlotName, std::string>, std::vector<float>> values;  // by slot and parameter
  for (const StateName& name : session.state_names())
    values[{name.slot, name.parameter}].resize(static_cast<size_t>(session.state_shape(name).elements()));
  for (size_t s = 0; s < stores.size(); ++s) {
    const std::vector<Piece>& pieces = program.servers[s].pieces;
    const StoreLayout layout = stored_layout(pieces);
    std::vector<float> arena(layout.floats);
    for (const SlotName& slot : arenas_of(program.servers[s])) {
      const int64_t of_arena = stores[s]->read(slot, arena);
      updates = std::min(updates.value_or(of_arena), of_arena);
      for (size_t p = 0; p < pieces.size(); ++p) {
        const auto found = values.find({slot, pieces[p].variable});
        if (found == values.end()) continue;
        pieces[p].put_into(found->second, piece_in(arena, layout, p));
      }
    }
  }
  for (const auto& [name, state] : values) session.write_state({name.second, name.first}, state);
  return updates.value_or(0);
}

}  // namespace telar
