#pragma once

#include <dlfcn.h>

#include "cuda/fakes.h"
#include "support/paths.h"

namespace telar::test {

/// The settings of the fake GPUs in the module that sessions load.
inline Fake& fake_of_module() {
  void* module = dlopen((fake_cuda_folder() + "/telar-cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  return *reinterpret_cast<Fake* (*)()>(dlsym(module, "telar_fake"))();
}

}  // namespace telar::test
