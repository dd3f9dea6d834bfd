#include "backend/opencl/opencl_queues.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"

namespace snug {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kBeat = 16;     // commands between two that tell when they are done
constexpr std::size_t kMostBeats = 32;  // that are not done
/// Of work that is not done: display cards end long queues.
constexpr std::chrono::duration<double> kMostWork = std::chrono::seconds(2);

}  // namespace

void OpenClCall::run(const RunArgs&) const {
  internal_error("opencl", "a call of a device was run by the host");
}

OpenClQueues::OpenClQueues(std::shared_ptr<OpenClContext> device, std::uint32_t marks)
    : device_(std::move(device)), marks_(marks) {
  device_->require_usable();
  for (Line& l : lines_) l.queue = device_->make_queue();
}

OpenClQueues::~OpenClQueues() {
  abandon();
  if (!device_->is_lost()) return;
  for (Line& l : lines_) l.queue.forget();
}

void OpenClQueues::run(const PreparedCall& call, const RunArgs& args) {
  device_->require_usable();
  if (!signals_ && !device_->found().gpu) signals_.emplace();
  static_cast<const OpenClCall&>(call).ask(*this, args);
}

void OpenClQueues::copy(Queue queue, std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (bytes == 0) return;
  device_->require_usable();
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
  marks_.at(mark) = device_->marker(line(queue).queue.get());
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
    const ClEvent last = device_->marker(l.queue.get());
    await(last.get());
  }
  forget_all();
}

void OpenClQueues::forget_all() noexcept {
  for (Line& l : lines_) {
    for (ClEvent& beat : l.beats)
      if (device_->is_lost()) beat.forget();
    l.beats.clear();
    l.commands.clear();
    l.asked = 0;
  }
  for (ClEvent& m : marks_) {
    if (device_->is_lost()) m.forget();
    m = ClEvent();
  }
  signals_.reset();
}

void OpenClQueues::abandon() noexcept {
  // Not for ever: a device that hangs is left alone, with what it was asked.
  constexpr auto kGrace = std::chrono::seconds(30);
  const auto end = Clock::now() + kGrace;
  const auto wait = [&](Line& l) {
    const ClEvent last = device_->marker(l.queue.get());
    flush();
    while (!is_done(last.get())) {
      if (Clock::now() > end) device_->lose(fmt::format("it does not end: {}", commands()));
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  };
  for (Line& l : lines_)
    if (l.queue.get() && opencl_is_ours() && !device_->is_lost()) try {
        wait(l);
      } catch (const std::exception&) {  // it has failed, which somebody has been told
      }
  forget_all();
}

void OpenClQueues::launch(const OpenClKernel& kernel, std::span<const OpenClArg> args,
                          OpenClGroups groups) {
  if (groups[0] <= 0 || groups[1] <= 0 || groups[2] <= 0) return;
  device_->require_usable();
  SNUG_CHECK(args.size() == kernel.text().args.size(), "{} has {} arguments, not {}", kernel.name(),
             kernel.text().args.size(), args.size());
  kernel.with([&](cl_kernel k) {
    SNUG_CHECK(k != nullptr, "{} was not made ready", kernel.name());
    cl_uint number = 0;
    const auto set = [&](const auto& value) {
      // A handle is passed as it is.  NOLINTNEXTLINE(bugprone-sizeof-expression)
      device_->check(opencl().clSetKernelArg(k, number++, sizeof value, &value), "clSetKernelArg",
                     kernel.name());
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
    device_->check(opencl().clEnqueueNDRangeKernel(line(Compute).queue.get(), k, axes, nullptr,
                                                   global, local, 0, nullptr, nullptr),
                   "clEnqueueNDRangeKernel", kernel.name());
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

void OpenClQueues::count(Queue queue, std::string_view what) {
  Line& l = line(queue);
  l.commands.push_back(what);
  if (++l.asked < kBeat) return;
  l.asked = 0;
  l.beats.push_back(device_->marker(l.queue.get()));
  device_->check(opencl().clFlush(l.queue.get()), "clFlush");
  take_beats();
  if (l.beats.size() <= l.most_beats) return;
  const Clock::time_point begin = Clock::now();
  await(l.beats[l.beats.size() - l.most_beats].get());
  // While a queue is full, one beat is done in the time that another one waits.
  const double work = std::chrono::duration<double>(Clock::now() - begin) / kMostWork *
                      static_cast<double>(l.most_beats);
  if (work > 1)
    l.most_beats = std::max<std::size_t>(l.most_beats / 2, 1);
  else if (work < 0.25)
    l.most_beats = std::min(2 * l.most_beats, kMostBeats);
}

bool OpenClQueues::is_done(cl_event event) const {
  const cl_int status = device_->status_of(event);
  if (status < 0) device_->fail_late(status, commands());
  return status == CL_COMPLETE;
}

std::string OpenClQueues::commands() const {
  constexpr std::size_t kMostNames = 16;
  std::string text;
  std::size_t named = 0, left = 0;
  for (const Line& l : lines_)
    for (std::size_t k = 0, same = 0; k < l.commands.size(); k += same) {
      for (same = 1; k + same < l.commands.size() && l.commands[k + same] == l.commands[k];
           ++same) {
      }
      if (named++ >= kMostNames) {
        left += same;
        continue;
      }
      text += fmt::format("{}{}", text.empty() ? "" : ", ", l.commands[k]);
      if (same > 1) text += fmt::format(" ({} times)", same);
    }
  if (left > 0) text += fmt::format(" and {} more", left);
  return text.empty() ? "nothing" : text;
}

bool OpenClQueues::take_beats() {
  bool some = false;
  for (Line& l : lines_)
    while (!l.beats.empty() && is_done(l.beats.front().get())) {
      l.beats.pop_front();
      l.commands.erase(l.commands.begin(), l.commands.begin() + kBeat);
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
  const cl_int status = device_->await(
      event.get(), [&] { return commands(); }, [&] { return take_beats(); });
  if (status < 0) device_->fail_late(status, commands());
}

}  // namespace snug
