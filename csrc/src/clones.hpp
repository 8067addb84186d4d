// Functions compiled for several instruction sets, of which the loader chooses one. -ffp-contract=off holds for
// all of them: results do not depend on the choice.
#pragma once

// Not under the thread sanitizer: the loader chooses a clone before the sanitizer has started.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define DPCORE_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define DPCORE_CLONES
#endif
