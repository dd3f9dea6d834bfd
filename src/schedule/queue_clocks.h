#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace snug {

/// What is known to be done before the next step of a queue begins, while one walks through the
/// steps of a schedule: per queue the number of its last step, a vector clock.
class QueueClocks {
 public:
  /// The next step is of that queue. The calling thread asks for it, so what that thread did, or
  /// waited for, is done.
  void begin(QueueId queue) {
    queue_ = queue;
    if (clocks_.size() <= queue) clocks_.resize(queue + 1U);
    join(clock(queue), clock(kHostQueue));
  }
  /// It waits for an earlier one. If that is of another device, or the step is the thread's own,
  /// the thread waits.
  void wait(std::uint32_t step) {
    if (queue_ == kHostQueue || device_of_queue(queue_) != device_of_queue(queue_at_[step]))
      join(clock(kHostQueue), done_[step]);
    join(clock(queue_), done_[step]);
  }
  bool knows(std::uint32_t step) { return is_in(clock(queue_), step); }
  bool host_knows(std::uint32_t step) { return is_in(clock(kHostQueue), step); }
  /// The step has that number.
  void end(std::uint32_t step) {
    Clock& c = clock(queue_);
    if (c.size() <= queue_) c.resize(queue_ + 1U, 0);
    c[queue_] = step + 1;
    done_.resize(step + 1U);
    queue_at_.resize(step + 1U, kHostQueue);
    done_[step] = c;
    queue_at_[step] = queue_;
  }

 private:
  using Clock = std::vector<std::uint32_t>;  // per queue: steps before this one are done

  Clock& clock(QueueId queue) { return clocks_[queue]; }
  bool is_in(const Clock& c, std::uint32_t step) const {
    const QueueId queue = queue_at_[step];
    return queue < c.size() && c[queue] > step;
  }
  static void join(Clock& to, const Clock& from) {
    if (to.size() < from.size()) to.resize(from.size(), 0);
    for (std::size_t q = 0; q < from.size(); ++q) to[q] = std::max(to[q], from[q]);
  }

  QueueId queue_ = kHostQueue;
  std::vector<Clock> clocks_;      // per queue: before its next step
  std::vector<Clock> done_;        // per step: once it is done
  std::vector<QueueId> queue_at_;  // per step
};

}  // namespace snug
