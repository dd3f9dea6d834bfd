#pragma once

namespace snug {

/// How fast values go to a file and come back.
struct DiskRates {
  double write = 2e8, read = 4e8;  // bytes per second
  double latency = 1e-4;           // seconds per transfer

  double store_seconds(double bytes) const { return latency + bytes / write; }
  double load_seconds(double bytes) const { return latency + bytes / read; }
};

}  // namespace snug
