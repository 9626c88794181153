#pragma once

#include <memory>

#include "telar/comm/linked/links.h"

namespace telar {

/// ProcessLinks between all processes of MPI, which must have been initialised, and is finalised with them.
std::unique_ptr<ProcessLinks> make_mpi_links();

}  // namespace telar
