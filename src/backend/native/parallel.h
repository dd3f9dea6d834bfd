#pragma once
#include <omp.h>

#include "base/pool.h"

namespace snug::native {

/// Libraries on OpenMP take their number of threads from the calling thread's setting, which is one
/// while functions run: our pool calls them on parts. The setting belongs to this thread alone, so
/// this costs a store.
class OmpThreads {
 public:
  explicit OmpThreads(int threads) : saved_(omp_get_max_threads()) {
    if (threads != saved_) omp_set_num_threads(threads);
  }
  ~OmpThreads() {
    if (omp_get_max_threads() != saved_) omp_set_num_threads(saved_);
  }
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  int saved_;
};

}  // namespace snug::native
