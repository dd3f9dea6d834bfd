#include "backend/opencl/opencl_queues.h"

#include <fmt/format.h>

#include <cstring>
#include <thread>

#include "backend/opencl/opencl_errors.h"
#include "base/error.h"

namespace snug {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kBeat = 16;     // commands between two that tell when they are done
constexpr std::size_t kMostBeats = 32;  // that are not done: display cards end long queues
constexpr auto kPatience = std::chrono::minutes(10);  // while nothing gets done

/// Busy at first, then with pauses.
class Pause {
 public:
  void operator()() {
    const auto waited = Clock::now() - since_;
    if (waited < std::chrono::microseconds(200))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(
          std::chrono::microseconds(waited < std::chrono::seconds(1) ? 100 : 1000));
  }
  bool too_long() const { return Clock::now() - since_ > kPatience; }
  void restart() { since_ = Clock::now(); }

 private:
  Clock::time_point since_ = Clock::now();
};

}  // namespace

void OpenClCall::run(const RunArgs&) const {
  internal_error("opencl", "a call of a device was run by the host");
}

OpenClQueues::OpenClQueues(std::shared_ptr<OpenClContext> device, std::uint32_t marks)
    : device_(std::move(device)), marks_(marks) {
  device_->require_own_process();
  for (Line& l : lines_) l.queue = device_->make_queue();
}

OpenClQueues::~OpenClQueues() { abandon(); }

void OpenClQueues::run(const PreparedCall& call, const RunArgs& args) {
  device_->require_own_process();
  if (!signals_ && !device_->found().gpu) signals_.emplace();
  static_cast<const OpenClCall&>(call).ask(*this, args);
}

void OpenClQueues::copy(Queue queue, std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (bytes == 0) return;
  device_->require_own_process();
  const cl_command_queue q = line(queue).queue.get();
  const auto target = device_->find(to), source = device_->find(from);
  if (target.memory && source.memory)
    device_->check(opencl().clEnqueueCopyBuffer(q, source.memory, target.memory, source.offset,
                                                target.offset, bytes, 0, nullptr, nullptr),
                   "clEnqueueCopyBuffer");
  else if (target.memory)
    device_->check(opencl().clEnqueueWriteBuffer(q, target.memory, CL_FALSE, target.offset, bytes,
                                                 from, 0, nullptr, nullptr),
                   "clEnqueueWriteBuffer");
  else if (source.memory)
    device_->check(opencl().clEnqueueReadBuffer(q, source.memory, CL_FALSE, source.offset, bytes,
                                                to, 0, nullptr, nullptr),
                   "clEnqueueReadBuffer");
  else
    internal_error("opencl", "a copy that has no end on the device");
  if (!source.memory) device_->counts().copied_in += bytes;
  if (!target.memory) device_->counts().copied_out += bytes;
  count(queue, "a copy");
}

void OpenClQueues::mark(Queue queue, std::uint32_t mark) {
  marks_.at(mark) = marker(line(queue));
  device_->check(opencl().clFlush(line(queue).queue.get()), "clFlush");
}

void OpenClQueues::wait(Queue queue, std::uint32_t mark) {
  const cl_event event = marks_.at(mark).get();
  if (!event) return;
  device_->check(opencl().clEnqueueBarrierWithWaitList(line(queue).queue.get(), 1, &event, nullptr),
                 "clEnqueueBarrierWithWaitList");
}

void OpenClQueues::finish(std::uint32_t mark) {
  if (const cl_event event = marks_.at(mark).get()) await(event);
}

void OpenClQueues::finish() {
  for (Line& l : lines_) {
    const ClEvent last = marker(l);
    await(last.get());
  }
  take_beats();
  for (ClEvent& m : marks_) m = ClEvent();
  signals_.reset();
}

void OpenClQueues::abandon() noexcept {
  // Not for ever: a device that hangs is left alone, with what it was asked.
  constexpr auto kGrace = std::chrono::seconds(30);
  const auto end = Clock::now() + kGrace;
  for (Line& l : lines_) {
    if (l.queue.get() && opencl_is_ours()) try {
        const ClEvent last = marker(l);
        flush();
        while (!is_done(last.get(), "the last command") && Clock::now() < end)
          std::this_thread::sleep_for(std::chrono::microseconds(200));
      } catch (const std::exception&) {  // it has failed, which somebody has been told
      }
    l.beats.clear();
    l.asked = 0;
  }
  for (ClEvent& m : marks_) m = ClEvent();
  signals_.reset();
}

void OpenClQueues::launch(const OpenClKernel& kernel, std::span<const OpenClArg> args,
                          OpenClGroups groups) {
  if (groups[0] <= 0 || groups[1] <= 0 || groups[2] <= 0) return;
  device_->require_own_process();
  SNUG_CHECK(args.size() == kernel.text().args.size(), "{} has {} arguments, not {}", kernel.name(),
             kernel.text().args.size(), args.size());
  kernel.with([&](cl_kernel k) {
    SNUG_CHECK(k != nullptr, "{} was not made ready", kernel.name());
    cl_uint number = 0;
    const auto set = [&](const auto& value) {
      // A handle is passed as it is.  NOLINTNEXTLINE(bugprone-sizeof-expression)
      device_->check(opencl().clSetKernelArg(k, number++, sizeof value, &value), "clSetKernelArg");
    };
    set(cl_int{1});
    for (const OpenClArg& a : args) switch (a.kind) {
        case OpenClKind::Memory: {
          const auto place = device_->find(a.address);
          SNUG_CHECK(place.memory || !a.address, "{}: an operand that is not on the device",
                     kernel.name());
          set(place.memory);
          set(static_cast<cl_long>(place.offset / static_cast<std::uint64_t>(a.width)));
          break;
        }
        case OpenClKind::Int: set(static_cast<cl_int>(a.integer)); break;
        case OpenClKind::Long: set(static_cast<cl_long>(a.integer)); break;
        case OpenClKind::Float: set(static_cast<cl_float>(a.number)); break;
        case OpenClKind::Double: set(static_cast<cl_double>(a.number)); break;
      }
    std::size_t local[3], global[3];
    for (std::size_t d = 0; d < 3; ++d) {
      local[d] = kernel.text().local[d];
      global[d] = local[d] * static_cast<std::size_t>(groups[d]);
    }
    const cl_uint axes = groups[2] * kernel.text().local[2] > 1   ? 3
                         : groups[1] * kernel.text().local[1] > 1 ? 2
                                                                  : 1;
    const cl_int code = opencl().clEnqueueNDRangeKernel(line(Compute).queue.get(), k, axes, nullptr,
                                                        global, local, 0, nullptr, nullptr);
    if (code != CL_SUCCESS)
      fail(Fault::Device,
           fmt::format("{}: kernel {}: clEnqueueNDRangeKernel: {} ({})", device_->name(),
                       kernel.name(), opencl_error_name(code), code),
           "run the function on another device");
  });
  ++device_->counts().launches;
  count(Compute, kernel.name());
}

void OpenClQueues::fill(std::byte* to, std::span<const std::byte> pattern, std::uint64_t bytes) {
  if (bytes == 0) return;
  const auto place = device_->find(to);
  SNUG_CHECK(place.memory, "fill: memory that is not on the device");
  device_->check(
      opencl().clEnqueueFillBuffer(line(Compute).queue.get(), place.memory, pattern.data(),
                                   pattern.size(), place.offset, bytes, 0, nullptr, nullptr),
      "clEnqueueFillBuffer");
  count(Compute, "a fill");
}

void OpenClQueues::count(Queue queue, const std::string& what) {
  Line& l = line(queue);
  if (++l.asked < kBeat) return;
  add_beat(l, what);
  take_beats();
  if (l.beats.size() > kMostBeats) await(l.beats[l.beats.size() - kMostBeats].event.get());
}

void OpenClQueues::add_beat(Line& l, const std::string& what) {
  l.asked = 0;
  l.beats.push_back({marker(l), what});
  device_->check(opencl().clFlush(l.queue.get()), "clFlush");
}

ClEvent OpenClQueues::marker(Line& l) const {
  cl_event event = nullptr;
  device_->check(opencl().clEnqueueMarkerWithWaitList(l.queue.get(), 0, nullptr, &event),
                 "clEnqueueMarkerWithWaitList");
  return ClEvent(event);
}

bool OpenClQueues::is_done(cl_event event, const std::string& what) const {
  cl_int status = CL_COMPLETE;
  device_->check(opencl().clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                         &status, nullptr),
                 "clGetEventInfo");
  if (status < 0)
    fail(Fault::Device,
         fmt::format("{}: a command failed, {} or one shortly before it: {} ({})", device_->name(),
                     what, opencl_error_name(status), status),
         "run the function on another device, or with a smaller batch");
  return status == CL_COMPLETE;
}

bool OpenClQueues::take_beats() {
  bool some = false;
  for (Line& l : lines_)
    while (!l.beats.empty() && is_done(l.beats.front().event.get(), l.beats.front().last)) {
      l.beats.pop_front();
      some = true;
    }
  return some;
}

void OpenClQueues::flush() {
  for (Line& l : lines_) device_->check(opencl().clFlush(l.queue.get()), "clFlush");
}

void OpenClQueues::await(cl_event given) {
  // What is waited for may be a beat, which is forgotten when it is done.
  device_->check(opencl().clRetainEvent(given), "clRetainEvent");
  const ClEvent event(given);
  flush();
  Pause pause;
  while (!is_done(event.get(), "the last command")) {
    if (take_beats()) pause.restart();
    if (pause.too_long())
      fail(Fault::Device,
           fmt::format("{} ({}) has done nothing for {} minutes", device_->name(),
                       device_->found().model, kPatience.count()),
           "run the function on another device");
    pause();
  }
}

}  // namespace snug
