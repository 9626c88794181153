#pragma once

#include <string>

/// Absolute paths of this checkout and this build. Only paths.cpp is compiled with them: every other
/// object is the same in each checkout, so that a compiler's cache serves them all. Without a final slash.
namespace telar::test {

std::string fixtures();          ///< tests/fixtures, or the folder TELAR_TEST_FIXTURES of the environment
std::string weave_corpus();      ///< tests/weave/corpus
std::string fuzz_corpus();       ///< fuzz/corpus
std::string scripts();           ///< scripts
std::string telar_program();     ///< the command line
std::string cuda_folder();       ///< where the module for GPUs is; empty if this build has none
std::string fake_cuda_folder();  ///< where the one on stand-ins is; empty if this build has none
std::string fake_nvml();         ///< the stand-in for NVIDIA's management library

}  // namespace telar::test
