#pragma once

#include <vector>

#include "telar/comm/store/store.h"
#include "telar/runtime/session.h"

namespace telar {

/// The state of a session that has no servers (parameters, optimizer state), copied to parameter servers of
/// `program` or from them. `stores`: in the order of the program's servers.
void write_servers(const ServerSide& program, const std::vector<Store*>& stores, const Session& session);
void read_servers(const ServerSide& program, const std::vector<Store*>& stores, Session& session);

/// Creates the arenas of all servers of a program and attaches to them. Throws Error (user) if a server holds
/// other pieces or has another update.
void create_servers(const ServerSide& program, const std::vector<Store*>& stores);

}  // namespace telar
