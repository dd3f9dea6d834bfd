#include "data/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/fork.h"

namespace snug::data {
namespace {

constexpr std::int64_t kInMemory = 64 << 20;  // what is no larger stays inflated
constexpr std::int64_t kWindow = 32768;       // what deflate looks back
constexpr std::size_t kMaxPoints = 256;
constexpr std::int64_t kInputBytes = 1 << 16;
constexpr std::int64_t kMaxRatio = 1040;  // deflate packs no more into a byte

/// A place between two blocks of deflate where inflating can begin.
struct Point {
  std::int64_t out = 0, in = 0;
  int bits = 0;  // of the byte before `in` that belong to the next block
  std::vector<unsigned char> window;
};

/// A run of zlib over compressed bytes.
class Stream {
 public:
  Stream(const Bytes& compressed, int window_bits) : compressed_(compressed) {
    if (inflateInit2(&z_, window_bits) != Z_OK)
      fail(Fault::Memory, "zlib has no memory for its state");
    input_.resize(kInputBytes);
  }
  ~Stream() { inflateEnd(&z_); }
  Stream(const Stream&) = delete;

  /// Goes on from a point; the stream was made for raw deflate.
  void start_at(const Point& point) {
    inflateReset(&z_);
    consumed_ = point.in;
    z_.avail_in = 0;
    out_ = point.out;
    ended_ = false;
    if (point.bits > 0) {
      unsigned char byte = 0;
      compressed_.read(point.in - 1, 1, &byte);
      inflatePrime(&z_, point.bits, byte >> (8 - point.bits));
    }
    if (!point.window.empty())
      inflateSetDictionary(&z_, point.window.data(), static_cast<uInt>(point.window.size()));
  }

  /// Inflates up to `count` bytes. With `stop`, also ends at the end of a block of deflate.
  std::int64_t run(unsigned char* out, std::int64_t count, bool stop = false) {
    z_.next_out = out;
    z_.avail_out = static_cast<uInt>(count);
    while (z_.avail_out > 0 && !ended_) {
      if (z_.avail_in == 0) fill();
      const uInt room = z_.avail_out;
      const int status = inflate(&z_, stop ? Z_BLOCK : Z_NO_FLUSH);
      out_ += room - z_.avail_out;
      if (status == Z_STREAM_END)
        ended_ = true;
      else if (status == Z_BUF_ERROR && z_.avail_in == 0 && consumed_ == compressed_.size())
        bad_file(compressed_.name(), "the compressed data end too early", "the file is truncated");
      else if (status != Z_OK && !(status == Z_BUF_ERROR && z_.avail_in == 0))
        bad_file(compressed_.name(), fmt::format("the compressed data are damaged near byte {}: {}",
                                                 place(), z_.msg ? z_.msg : "no valid stream"));
      if (stop && at_block()) break;
    }
    return count - z_.avail_out;
  }

  bool ended() const { return ended_; }
  bool at_block() const { return (z_.data_type & 128) && !(z_.data_type & 64); }
  int bits() const { return z_.data_type & 7; }
  std::int64_t position() const { return out_; }
  std::int64_t place() const { return consumed_ - z_.avail_in; }  // in the compressed bytes

 private:
  /// More input, if there is some; what was read may still give output.
  void fill() {
    const std::int64_t count = std::min(kInputBytes, compressed_.size() - consumed_);
    if (count <= 0) return;
    compressed_.read(consumed_, count, input_.data());
    z_.next_in = input_.data();
    z_.avail_in = static_cast<uInt>(count);
    consumed_ += count;
  }

  const Bytes& compressed_;
  z_stream z_{};
  std::vector<unsigned char> input_;
  std::int64_t consumed_ = 0, out_ = 0;
  bool ended_ = false;
};

int window_bits(Deflated kind) { return kind == Deflated::Gzip ? 31 : -15; }

class Inflated : public Bytes {
 public:
  Inflated(BytesPtr compressed, Deflated kind, std::int64_t size, std::optional<std::uint32_t> crc)
      : compressed_(std::move(compressed)), size_(size) {
    if (size / kMaxRatio > compressed_->size())
      bad_file(name(), fmt::format("it promises {} bytes, but {} compressed bytes cannot hold them",
                                   size, compressed_->size()));
    const std::uint32_t found = first_pass(kind);
    if (crc && found != *crc) bad_file(name(), kWrongSum);
    if (size_ > kInMemory) stream_ = std::make_unique<Stream>(*compressed_, -15);
  }

  std::int64_t size() const override { return size_; }
  std::int64_t block() const override { return stream_ ? spacing_ : 1; }
  std::string name() const override { return compressed_->name(); }
  std::int64_t own_bytes() const override {
    std::int64_t bytes = static_cast<std::int64_t>(content_.size());
    for (const Point& point : points_) bytes += static_cast<std::int64_t>(point.window.size());
    return bytes + (stream_ ? kInputBytes + kWindow : 0);
  }

  void read(std::int64_t offset, std::int64_t count, void* out) const override {
    if (!stream_) {
      if (count > 0) std::memcpy(out, content_.data() + offset, count);
      return;
    }
    std::lock_guard lock(mutex_);
    if (mutex_.lost_holder()) started_ = false;
    auto after = std::upper_bound(points_.begin(), points_.end(), offset,
                                  [](std::int64_t o, const Point& p) { return o < p.out; });
    const Point& point = *(after - 1);
    if (!started_ || stream_->position() > offset || stream_->position() < point.out) {
      stream_->start_at(point);
      started_ = true;
    }
    unsigned char skipped[4096];
    while (stream_->position() < offset)
      advance(skipped, std::min<std::int64_t>(sizeof skipped, offset - stream_->position()));
    auto* to = static_cast<unsigned char*>(out);
    constexpr std::int64_t kStep = 1 << 30;
    for (; count > 0; count -= std::min(kStep, count), to += kStep)
      advance(to, std::min(kStep, count));
  }

 private:
  void advance(unsigned char* out, std::int64_t count) const {
    started_ = false;  // until it went well
    if (stream_->run(out, count) != count) bad_file(name(), "was changed while in use");
    started_ = true;
  }

  /// Inflates everything: checks sum and size, keeps the content or the points.
  std::uint32_t first_pass(Deflated kind) {
    const bool keep = size_ <= kInMemory;
    if (keep) content_.resize(size_);
    Stream stream(*compressed_, window_bits(kind));
    std::vector<unsigned char> ring(keep ? 0 : kWindow);
    if (kind == Deflated::Raw) points_.emplace_back();  // gzip stops after its header
    unsigned char beyond;
    uLong sum = crc32(0, nullptr, 0);
    while (!stream.ended()) {
      const std::int64_t at = stream.position();
      if (at >= size_) {
        if (stream.run(&beyond, 1) > 0) wrong_size("more");
        continue;
      }
      unsigned char* out = keep ? content_.data() + at : ring.data() + at % kWindow;
      const std::int64_t room = keep ? size_ - at : std::min(kWindow - at % kWindow, size_ - at);
      const std::int64_t count = stream.run(out, room, !keep);
      sum = crc32(sum, out, static_cast<uInt>(count));
      if (!keep && stream.at_block() && !stream.ended()) keep_point(stream, ring);
    }
    if (stream.position() < size_) wrong_size(std::to_string(stream.position()));
    return static_cast<std::uint32_t>(sum);
  }

  [[noreturn]] void wrong_size(const std::string& found) const {
    bad_file(name(), fmt::format("it promises {} bytes, but holds {}", size_, found));
  }

  void keep_point(const Stream& stream, const std::vector<unsigned char>& ring) {
    const std::int64_t out = stream.position();
    if (!points_.empty() && out - points_.back().out < spacing_) return;
    Point point{out, stream.place(), stream.bits(), {}};
    const std::int64_t length = std::min(out, kWindow), end = out % kWindow;
    point.window.resize(length);
    if (length == kWindow) {
      std::copy(ring.begin() + end, ring.end(), point.window.begin());
      std::copy(ring.begin(), ring.begin() + end, point.window.begin() + (kWindow - end));
    } else {
      std::copy(ring.begin(), ring.begin() + length, point.window.begin());
    }
    points_.push_back(std::move(point));
    if (points_.size() < kMaxPoints) return;
    // Half as many, twice as far from each other.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < points_.size(); i += 2) {
      if (kept != i) points_[kept] = std::move(points_[i]);
      ++kept;
    }
    points_.resize(kept);
    spacing_ *= 2;
  }

  BytesPtr compressed_;
  std::int64_t size_;
  std::vector<unsigned char> content_;
  std::vector<Point> points_;
  std::int64_t spacing_ = 1 << 20;
  mutable LongMutex mutex_;
  std::unique_ptr<Stream> stream_;  // guarded, with started_, by mutex_
  mutable bool started_ = false;
};

}  // namespace

std::vector<std::byte> inflate_head(const Bytes& compressed, Deflated kind, std::int64_t count) {
  std::vector<std::byte> out(count);
  Stream stream(compressed, window_bits(kind));
  out.resize(stream.run(reinterpret_cast<unsigned char*>(out.data()), count));
  return out;
}

BytesPtr inflated(BytesPtr compressed, Deflated kind, std::int64_t size,
                  std::optional<std::uint32_t> crc) {
  return std::make_shared<Inflated>(std::move(compressed), kind, size, crc);
}

bool inflate_all(std::span<const std::byte> packed, std::span<std::byte> out) {
  uLongf size = out.size();
  return uncompress(reinterpret_cast<Bytef*>(out.data()), &size,
                    reinterpret_cast<const Bytef*>(packed.data()), packed.size()) == Z_OK &&
         size == out.size();
}

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t start) {
  return static_cast<std::uint32_t>(
      crc32_z(start, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace snug::data
