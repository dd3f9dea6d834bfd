#include <png.h>

#include <csetjmp>
#include <cstring>
#include <optional>

#include "data/file.h"
#include "data/image.h"

namespace snug::data {
namespace {

/// The state of a decoder: all that a jump out of libpng must not skip the end of lives here.
struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::uint8_t> file;
  std::string reason = "no reason given";
  std::optional<Resizer> resizer;
  std::vector<std::uint8_t> pixels;  // a line, or all of an interlaced image

  explicit Decoder(std::span<const std::uint8_t> bytes) : file(bytes) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png) info = png_create_info_struct(png);
    if (!info) {
      png_destroy_read_struct(&png, nullptr, nullptr);
      fail(Fault::Memory, "libpng has no memory for its state");
    }
    png_set_read_fn(png, this, on_read);
  }
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }

  static void on_error(png_structp png, png_const_charp text) {
    auto* self = static_cast<Decoder*>(png_get_error_ptr(png));
    self->reason = text;
    std::longjmp(png_jmpbuf(png), 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep out, std::size_t count) {
    auto* self = static_cast<Decoder*>(png_get_io_ptr(png));
    if (count > self->file.size()) png_error(png, "the file ends too early");
    std::memcpy(out, self->file.data(), count);
    self->file = self->file.subspan(count);
  }

  // Each returns false if libpng failed.
  bool read_header() {
    if (setjmp(png_jmpbuf(png))) return false;
    png_read_info(png, info);
    return true;
  }
  bool set_up() {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_expand(png);  // a palette becomes colours, small greys bytes
    png_set_scale_16(png);
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    return true;
  }
  bool read_line(std::uint8_t* out) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_read_row(png, out, nullptr);
    return true;
  }
  bool finish() {
    if (setjmp(png_jmpbuf(png))) return false;
    png_read_end(png, nullptr);
    return true;
  }
};

}  // namespace

void decode_png(std::span<const std::uint8_t> file, const std::string& path,
                const ImageOptions& size, std::uint8_t* out, Gauge::Share& memory) {
  Decoder decoder(file);
  auto damaged = [&] { bad_file(path, fmt::format("is a damaged PNG image: {}", decoder.reason)); };
  if (!decoder.read_header()) damaged();
  const std::int64_t width = png_get_image_width(decoder.png, decoder.info);
  const std::int64_t height = png_get_image_height(decoder.png, decoder.info);
  if (width * height > kMostPixels)
    bad_file(path, fmt::format("has {} x {} pixels; the limit is {}", width, height, kMostPixels));
  if (!decoder.set_up()) damaged();
  const int channels = png_get_channels(decoder.png, decoder.info);
  const auto line = static_cast<std::int64_t>(png_get_rowbytes(decoder.png, decoder.info));
  if ((channels != 1 && channels != 3) || line != width * channels)
    bad_file(path, fmt::format("is a PNG image of {} channels", channels));

  decoder.resizer.emplace(width, height, channels, size);
  // libpng has two lines, before and after its filters, and zlib looks back 32 KiB.
  constexpr std::int64_t kState = 1 << 16;
  memory.add(decoder.resizer->bytes() + 2 * line + kState);
  const bool interlaced = png_get_interlace_type(decoder.png, decoder.info) != PNG_INTERLACE_NONE;
  if (!interlaced) {
    memory.add(line);
    decoder.pixels.resize(line);
    for (std::int64_t y = 0; y < height; ++y) {
      if (!decoder.read_line(decoder.pixels.data())) damaged();
      decoder.resizer->line(decoder.pixels.data());
    }
  } else {
    constexpr int kPasses = 7;
    memory.add(line * height);
    decoder.pixels.resize(line * height);
    for (int pass = 0; pass < kPasses; ++pass)
      for (std::int64_t y = 0; y < height; ++y)
        if (!decoder.read_line(decoder.pixels.data() + y * line)) damaged();
    for (std::int64_t y = 0; y < height; ++y)
      decoder.resizer->line(decoder.pixels.data() + y * line);
  }
  if (!decoder.finish()) damaged();
  decoder.resizer->finish(out);
}

}  // namespace snug::data
