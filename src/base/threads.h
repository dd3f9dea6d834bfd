#pragma once
#include <cstddef>
#include <functional>
#include <string_view>
#include <thread>

#include "base/control_groups.h"

namespace snug {

/// The most that may be asked for, and the most calls at the same time.
inline constexpr int kMostThreads = 1024;

/// Threads that work is for if nobody says otherwise: OMP_NUM_THREADS, else the cores this process
/// may use, fewer where control groups give it less time than that.
int available_threads();

/// Cores whose time control groups allow: the least quota / period, rounded up, of the group of the
/// process and those around it; 0 if there is none.
int quota_cores(const GroupFiles& files = {});

/// A Device error that says what it is for if the system starts none.
std::thread start_thread(std::function<void()> work, std::string_view what);

/// Says so, once in a process.
void warn_of_fewer_threads(std::size_t wanted, std::size_t got);

}  // namespace snug
