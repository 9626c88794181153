#pragma once

#include <string>

#include "telar/graph/program.h"

namespace telar {

/// A parameter server's program as JSON text. It is all that a server receives, and all that it needs:
/// learning rate, number of samples and round come with each push. Throws Error (user) if the text exceeds
/// kMostServerProgramBytes.
std::string to_json(const ServerProgram& program);
/// A server reads no larger messages.
inline constexpr size_t kMostServerProgramBytes = size_t{3} << 20;

/// Reads such a text. `source` is the sender, for messages. Throws Error (user) also if pieces and update
/// contradict each other: each node must update one of the pieces, which has no other update, by a rule of
/// telar/graph/ops/update.h, from the piece's own gradient and state.
ServerProgram server_program_from_json(const std::string& text, const std::string& source);

/// How the program `other` of a run differs from the one that a server holds, as the end of a sentence, or an
/// empty text: "the update of 'fc.bias' is sgd_update {…} on the server, but adam_update {…} in the run".
std::string difference(const ServerProgram& held, const ServerProgram& other);

}  // namespace telar
