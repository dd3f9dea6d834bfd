#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/opencl/opencl_kernels.h"
#include "base/kept_signals.h"
#include "kernel/device.h"

namespace snug {

/// What a kernel is given for one of its arguments.
struct OpenClArg {
  OpenClKind kind = OpenClKind::Int;
  const std::byte* address = nullptr;  // of Memory: on the device
  std::int64_t width = 1;              // of Memory: bytes of an element
  std::int64_t integer = 0;            // of Int and Long
  double number = 0;                   // of Float and Double

  static OpenClArg memory(const std::byte* p, std::int64_t width) {
    return {OpenClKind::Memory, p, width};
  }
  static OpenClArg int32(std::int64_t n) { return {.kind = OpenClKind::Int, .integer = n}; }
  static OpenClArg int64(std::int64_t n) { return {.kind = OpenClKind::Long, .integer = n}; }
};

/// Work groups along each axis.
using OpenClGroups = std::array<std::int64_t, 3>;

/// As CommandQueues says. Waits ask again and again whether it is done, and give up when nothing
/// gets done for long.
class OpenClQueues : public CommandQueues {
 public:
  OpenClQueues(std::shared_ptr<OpenClContext> device, std::uint32_t marks);
  ~OpenClQueues() override;

  void run(const PreparedCall& call, const RunArgs& args) override;
  void copy(Queue queue, std::byte* to, const std::byte* from, std::uint64_t bytes) override;
  void mark(Queue queue, std::uint32_t mark) override;
  void wait(Queue queue, std::uint32_t mark) override;
  void finish(std::uint32_t mark) override;
  void finish() override;
  void abandon() noexcept override;

  /// For calls. Nothing runs if a number of groups is 0.
  void launch(const OpenClKernel& kernel, std::span<const OpenClArg> args, OpenClGroups groups);
  /// `bytes` copies of a block of at most 128 bytes, a power of two.
  void fill(std::byte* to, std::span<const std::byte> pattern, std::uint64_t bytes);
  const OpenClContext& device() const { return *device_; }

 private:
  /// Commands that were asked for in a queue, some of which tell when they are done.
  struct Line {
    ClQueue queue;
    std::uint32_t asked = 0;                // since the last beat
    std::deque<ClEvent> beats;              // one after every kBeat commands
    std::size_t most_beats = 2;             // unfinished ones that are not waited for
    std::deque<std::string_view> commands;  // that are not known to be done
  };
  Line& line(Queue queue) { return lines_[queue]; }
  /// A command was asked for.
  void count(Queue queue, std::string_view what);
  void await(cl_event event);
  /// Whether it is done; a Device error if it failed.
  bool is_done(cl_event event) const;
  /// The first of the commands that are not known to be done.
  std::string commands() const;
  /// Forgets beats that are done; whether there were some.
  bool take_beats();
  void forget_all() noexcept;
  void flush();

  std::shared_ptr<OpenClContext> device_;
  std::array<Line, kQueues> lines_;
  std::vector<ClEvent> marks_;
  /// From the first command to the last: a processor's driver compiles when a kernel first runs.
  std::optional<KeptSignals> signals_;
};

/// What a call prepared for an OpenCL device does.
class OpenClCall : public PreparedCall {
 public:
  void make_ready() const override {
    for (const auto& kernel : kernels_) kernel->make_ready();
  }
  void run(const RunArgs& args) const final;  // never: it is asked for
  virtual void ask(OpenClQueues& queues, const RunArgs& args) const = 0;

 protected:
  std::vector<std::shared_ptr<const OpenClKernel>> kernels_;
};

}  // namespace snug
