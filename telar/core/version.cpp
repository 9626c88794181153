#include "telar/core/version.h"

#include "telar/core/commit.h"

namespace telar {

const char* version() { return kCommit; }

}  // namespace telar
