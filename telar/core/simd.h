#pragma once

// Hot loops of ours are compiled for several generations of processors; the loader picks one at start-up. (oneDNN does the
// same for its kernels.) Sanitizers run before such a choice is possible, hence not with them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
#define TELAR_FOR_EACH_CPU
#else
#define TELAR_FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
