#pragma once

namespace telar {

/// The version of the program and the commit that it was built from: "0.1.0 (3f2a91c0d4e5)", or "0.1.0 (3f2a91c0d4e5,
/// changed)" where tracked files differed from that commit.
const char* version();

}  // namespace telar
