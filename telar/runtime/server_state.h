#pragma once

#include <vector>

#include "telar/comm/store/store.h"
#include "telar/runtime/session.h"

namespace telar {

/// The state of a session that has no servers (parameters, optimizer state), copied to parameter servers of
/// `program` or from them. `stores`: in the order of the program's servers. `updates`: that have led to this
/// state; read_servers() returns them, those of the server with the fewest if one has lost some.
void write_servers(const StoreProgram& program, const std::vector<Store*>& stores, const Session& session,
                   int64_t updates);
int64_t read_servers(const StoreProgram& program, const std::vector<Store*>& stores, Session& session);

/// The number of updates that each server makes in `steps` steps of the workers of a program, if all pushes
/// are of as many steps as they can be: one in each round, or for each push.
int64_t updates_after(const Program& program, int64_t steps);

/// Creates the arenas of all servers of a program and attaches to them. Throws Error (user) if a server holds
/// other pieces or has another update.
void create_servers(const StoreProgram& program, const std::vector<Store*>& stores);

}  // namespace telar
