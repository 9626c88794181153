#pragma once

#include "telar/comm/store/store_update.h"

namespace telar {

/// Makes a parameter server's update from its ServerProgram as text (telar/io/server_program.h): the update
/// graph, compiled for one thread. So a server knows neither job nor model.
StoreUpdateFactory program_updates();

}  // namespace telar
