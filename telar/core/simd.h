#pragma once

// Our hot loops are compiled for several CPU generations; the loader selects one version at start-up. (oneDNN
// does the same for its kernels.) Sanitizers start before that selection is possible, so it is disabled for
// them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
#define TELAR_FOR_EACH_CPU
#else
#define TELAR_FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
