#pragma once

#include <string>

namespace telar::cli {

/// The strategy of a script that is woven for Telar, as a dictionary of Python: `{"strategy": "mirrored",
/// "replicas": 2}` for "mirrored,replicas=2". Empty: replicas that share each batch. Throws Error (user) for a
/// strategy or an option that does not exist, and for a strategy with servers.
std::string strategy_dictionary(const std::string& given);

}  // namespace telar::cli
