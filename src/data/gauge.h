#pragma once
#include <atomic>
#include <cstdint>

namespace snug::data {

/// Bytes in use by several threads, and the most of them at once.
class Gauge {
 public:
  std::int64_t peak() const { return peak_; }

  /// Some of these bytes; they are given back at its end.
  class Share {
   public:
    explicit Share(Gauge& gauge) : gauge_(gauge) {}
    ~Share() { gauge_.now_ -= bytes_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    void add(std::int64_t bytes) {
      bytes_ += bytes;
      const std::int64_t now = gauge_.now_ += bytes;
      std::int64_t peak = gauge_.peak_;
      while (peak < now && !gauge_.peak_.compare_exchange_weak(peak, now)) {
      }
    }

   private:
    Gauge& gauge_;
    std::int64_t bytes_ = 0;
  };

 private:
  std::atomic<std::int64_t> now_{0}, peak_{0};
};

}  // namespace snug::data
