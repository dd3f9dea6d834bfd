#pragma once
#include <cstddef>
#include <functional>
#include <string_view>
#include <thread>

namespace snug {

/// The most that may be asked for, and the most calls at the same time.
inline constexpr int kMostThreads = 1024;

/// Cores this process may use.
int available_threads();

/// How many threads more can be started now, at most `wanted`: starts that many, and ends them.
/// libgomp ends the process where it gets fewer than it asks for, so it is asked for no more.
int startable_threads(int wanted);

/// Runs `work`, which throws nothing, on this thread and on `threads` - 1 others, fewer where the
/// system starts no more, and waits for all.
void run_together(std::size_t threads, const std::function<void()>& work);

/// A Device error that says what it is for if the system starts none.
std::thread start_thread(std::function<void()> work, std::string_view what);

/// Says so, once in a process.
void warn_of_fewer_threads(std::size_t wanted, std::size_t got);

}  // namespace snug
