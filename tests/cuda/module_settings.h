#pragma once

#include <dlfcn.h>

#include "cuda/fakes.h"

namespace telar::test {

/// The settings of the fake GPUs in the module that sessions load.
inline Fake& fake_of_module() {
  void* module = dlopen(TELAR_FAKE_CUDA "/telar-cuda.so", RTLD_NOW | RTLD_LOCAL);
  return *reinterpret_cast<Fake* (*)()>(dlsym(module, "telar_fake"))();
}

}  // namespace telar::test
