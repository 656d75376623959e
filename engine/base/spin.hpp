// spin.hpp - tell the CPU that its thread waits for that of another one.
#pragma once

namespace ls {

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace ls
