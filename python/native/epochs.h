#pragma once

#include <nanobind/nanobind.h>

#include "python/native/python_session.h"

namespace telar::python {

/// The workers of a session that has servers make the steps of an epoch, as threads of this process; the
/// session then has the servers' state.
///
/// `next`: gives the arrays of the next batch by name; it is called by the workers, one after another.
/// `done(step, samples, sums)`: called for each completed step, in any order. The session's number of updates
/// is then that of the servers. Throws what `next` and `done` throw, and KeyboardInterrupt after the steps
/// that have begun.
void make_epoch(PythonSession& session, int64_t steps, const nanobind::object& next, float learning_rate,
                int64_t epoch, const nanobind::object& done);

}  // namespace telar::python
