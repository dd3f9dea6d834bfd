#include "backend/opencl/opencl_context.h"

#include <fmt/format.h>

#include <thread>
#include <vector>

#include "backend/opencl/driver_files.h"
#include "backend/opencl/opencl_errors.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/kept_signals.h"

namespace snug {
namespace {

cl_device_id device_of(const OpenClFound& found) {
  const KeptSignals signals;
  const auto check = [&](cl_int code, const char* call) { check_opencl(code, found.name, call); };
  load_drivers();
  cl_uint count = 0;
  check(opencl().clGetPlatformIDs(0, nullptr, &count), "clGetPlatformIDs");
  std::vector<cl_platform_id> platforms(count);
  check(opencl().clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  std::size_t of_that_name = 0;
  for (const cl_platform_id platform : platforms) {
    char name[1024] = "";
    check(opencl().clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, nullptr),
          "clGetPlatformInfo");
    if (found.platform != name || of_that_name++ != found.platform_number) continue;
    check(opencl().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count),
          "clGetDeviceIDs");
    std::vector<cl_device_id> devices(count);
    check(opencl().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr),
          "clGetDeviceIDs");
    if (found.device_number < devices.size()) return devices[found.device_number];
  }
  fail(Fault::Device, fmt::format("{}: {} is not there any more", found.name, found.model));
}

}  // namespace

OpenClContext::OpenClContext(OpenClFound found)
    : found_(std::move(found)),
      device_(device_of(found_)),
      forks_(fork_count()),
      ledger_(found_.name, found_.memory) {
  const KeptSignals signals;
  cl_int code = CL_SUCCESS;
  context_ = ClContext(opencl().clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &code));
  check(code, "clCreateContext");
  queue_ = make_queue();
}

ClQueue OpenClContext::make_queue() const {
  cl_int code = CL_SUCCESS;
  ClQueue queue(opencl().clCreateCommandQueue(context_.get(), device_, 0, &code));
  check(code, "clCreateCommandQueue");
  ++counts_.objects;
  return queue;
}

OpenClContext::~OpenClContext() {
  if (!is_lost_) return;
  queue_.forget();
  context_.forget();
}

void OpenClContext::check(cl_int code, const char* call, std::string_view asked) const {
  if (code == CL_SUCCESS) return;
  const std::string what = fmt::format("{}{}{}: {} ({})", asked, asked.empty() ? "" : ": ", call,
                                       opencl_error_name(code), code);
  if (opencl_says_lost(code)) lose(what);
  fail(Fault::Device, fmt::format("{}: {}", found_.name, what),
       "run the function on another device, or with a smaller batch");
}

void OpenClContext::require_usable() const {
  if (forks_ != fork_count())
    fail(Fault::Device,
         fmt::format("{} is of the process that forked this one: drivers do not come along",
                     found_.name),
         "use the device in one process, or begin to use it after the fork");
  if (is_lost_) lose({});
}

void OpenClContext::lose(const std::string& why) const {
  std::string first;
  {
    const std::lock_guard lock(mutex_);
    if (!is_lost_.exchange(true)) lost_ = why;
    first = lost_;
  }
  fail(Fault::Device, fmt::format("{} ({}) is lost: {}", found_.name, found_.model, first),
       "run the function on another device, or in a new process; what was there alone has no value "
       "until it is set or restored");
}

cl_int OpenClContext::status_of(cl_event event) const {
  cl_int status = CL_COMPLETE;
  check(opencl().clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                                nullptr),
        "clGetEventInfo");
  return status;
}

namespace {

/// Busy at first, then with pauses.
class Pause {
 public:
  using Clock = std::chrono::steady_clock;
  void operator()() const {
    const auto waited = Clock::now() - since_;
    if (waited < std::chrono::microseconds(200))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(
          std::chrono::microseconds(waited < std::chrono::seconds(1) ? 100 : 1000));
  }
  bool is_longer_than(std::chrono::milliseconds limit) const {
    return Clock::now() - since_ > limit;
  }
  void restart() { since_ = Clock::now(); }

 private:
  Clock::time_point since_ = Clock::now();
};

}  // namespace

cl_int OpenClContext::await(cl_event event, const std::function<std::string()>& asked,
                            const std::function<bool()>& moves) const {
  Pause pause;
  for (;;) {
    if (const cl_int status = status_of(event); status <= CL_COMPLETE) return status;
    if (moves()) pause.restart();
    const std::chrono::milliseconds limit = patience_;
    if (pause.is_longer_than(limit))
      lose(fmt::format("it has done nothing for {} s; asked for: {}",
                       std::chrono::duration<double>(limit).count(), asked()));
    pause();
  }
}

void OpenClContext::fail_late(cl_int status, const std::string& asked) const {
  const std::string what = fmt::format("a command failed: {} ({}); asked for: {}",
                                       opencl_error_name(status), status, asked);
  if (!opencl_says_full(status)) lose(what);
  fail(Fault::Device, fmt::format("{}: {}", found_.name, what),
       "run the function with a smaller batch, or on another device");
}

ClEvent OpenClContext::marker(cl_command_queue queue) const {
  cl_event event = nullptr;
  check(opencl().clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event),
        "clEnqueueMarkerWithWaitList");
  return ClEvent(event);
}

cl_int OpenClContext::finish_code(const char* asked) const {
  const ClEvent last = marker(queue_.get());
  check(opencl().clFlush(queue_.get()), "clFlush", asked);
  return await(last.get(), [&] { return std::string(asked); });
}

void OpenClContext::finish(const char* asked) const {
  if (const cl_int status = finish_code(asked); status < 0) fail_late(status, asked);
}

OpenClContext::Place OpenClContext::find(const std::byte* address) const {
  const std::lock_guard lock(mutex_);
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return {};
  const auto& [begin, block] = *std::prev(next);
  const auto offset = static_cast<std::uint64_t>(address - begin);
  // What is empty may begin where its memory ends.
  return offset <= block.bytes ? Place{block.memory, offset} : Place{};
}

void OpenClContext::add_block(const std::byte* begin, cl_mem memory, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  blocks_[begin] = {memory, bytes};
}

void OpenClContext::remove_block(const std::byte* begin) {
  const std::lock_guard lock(mutex_);
  blocks_.erase(begin);
}

}  // namespace snug
