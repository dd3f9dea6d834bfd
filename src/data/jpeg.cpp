#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstdio>
#include <optional>

#include "data/file.h"
#include "data/image.h"

namespace snug::data {
namespace {

struct Failure : jpeg_error_mgr {
  std::jmp_buf jump;
};

void on_error(j_common_ptr image) { std::longjmp(static_cast<Failure*>(image->err)->jump, 1); }

/// Warnings about data that are missing are errors; others are about data nobody needs.
void on_message(j_common_ptr image, int level) {
  const int code = image->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) on_error(image);
}

/// An image comes in at most some tens of scans; each costs as much as the whole image, however few
/// bytes it has.
constexpr int kMostScans = 100;

struct Progress : jpeg_progress_mgr {
  bool too_many = false;
};

void on_progress(j_common_ptr common) {
  auto* image = reinterpret_cast<j_decompress_ptr>(common);
  if (image->input_scan_number <= kMostScans) return;
  static_cast<Progress*>(image->progress)->too_many = true;
  on_error(common);
}

/// The state of a decoder: all that a jump out of libjpeg must not skip the end of lives here.
struct Decoder {
  jpeg_decompress_struct image;
  Failure failure;
  Progress progress;
  std::optional<Resizer> resizer;
  std::vector<std::uint8_t> line, colours;

  Decoder() {
    image.err = jpeg_std_error(&failure);
    failure.error_exit = on_error;
    failure.emit_message = on_message;
    failure.output_message = [](j_common_ptr) {};
    jpeg_create_decompress(&image);
    progress.progress_monitor = on_progress;
    image.progress = &progress;
  }
  ~Decoder() { jpeg_destroy_decompress(&image); }

  // Each returns false if libjpeg failed.
  bool read_header(std::span<const std::uint8_t> file) {
    if (setjmp(failure.jump)) return false;
    jpeg_mem_src(&image, file.data(), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&image, TRUE);
    return true;
  }
  bool start() {
    if (setjmp(failure.jump)) return false;
    return jpeg_start_decompress(&image);
  }
  bool read_line() {
    if (setjmp(failure.jump)) return false;
    JSAMPROW row = line.data();
    return jpeg_read_scanlines(&image, &row, 1) == 1;
  }
  bool finish() {
    if (setjmp(failure.jump)) return false;
    return jpeg_finish_decompress(&image);
  }

  [[noreturn]] void fail_at(const std::string& path) {
    if (progress.too_many)
      bad_file(path, fmt::format("is a JPEG image of more than {} scans", kMostScans),
               "it is damaged, or made to take long: save it anew");
    char text[JMSG_LENGTH_MAX] = "";
    failure.format_message(reinterpret_cast<j_common_ptr>(&image), text);
    bad_file(path, fmt::format("is a damaged JPEG image: {}", text));
  }
};

/// What libjpeg takes to decode: lines of blocks of every component, and all coefficients of an
/// image that comes in several scans.
std::int64_t library_bytes(jpeg_decompress_struct& image) {
  constexpr std::int64_t kState = 1 << 16, kLinesOfBlocks = 3;
  const bool scans = jpeg_has_multiple_scans(&image);
  std::int64_t bytes = kState;
  for (int i = 0; i < image.num_components; ++i) {
    const jpeg_component_info& c = image.comp_info[i];
    const std::int64_t line = std::int64_t{c.width_in_blocks} * DCTSIZE2;
    bytes += kLinesOfBlocks * c.v_samp_factor * line;
    if (scans) bytes += c.height_in_blocks * line * std::int64_t{sizeof(JCOEF)};
  }
  return bytes;
}

/// Adobe's inverted inks as red, green and blue.
void colours_of_inks(const std::vector<std::uint8_t>& inks, std::vector<std::uint8_t>& colours) {
  for (std::size_t i = 0; i < inks.size() / 4; ++i)
    for (std::size_t c = 0; c < 3; ++c)
      colours[3 * i + c] = static_cast<std::uint8_t>(inks[4 * i + c] * inks[4 * i + 3] / 255);
}

}  // namespace

void decode_jpeg(std::span<const std::uint8_t> file, const std::string& path,
                 const ImageOptions& size, std::uint8_t* out, Gauge::Share& memory) {
  Decoder decoder;
  jpeg_decompress_struct& image = decoder.image;
  if (!decoder.read_header(file)) decoder.fail_at(path);
  const std::int64_t width = image.image_width, height = image.image_height;
  if (width * height > kMostPixels)
    bad_file(path, fmt::format("has {} x {} pixels; the limit is {}", width, height, kMostPixels));
  const bool inks = image.jpeg_color_space == JCS_CMYK || image.jpeg_color_space == JCS_YCCK;
  const bool plain_grey =
      image.jpeg_color_space == JCS_GRAYSCALE || (size.grey && image.jpeg_color_space == JCS_YCbCr);
  image.out_color_space = inks ? JCS_CMYK : plain_grey ? JCS_GRAYSCALE : JCS_RGB;

  // The transform makes small images of large ones by itself, in eighths.
  const ImagePart part = part_of(width, height, size);
  image.scale_num = 8;
  image.scale_denom = 8;
  for (unsigned eighths : {1u, 2u, 4u}) {
    if (part.width * eighths / 8 >= static_cast<double>(size.width) &&
        part.height * eighths / 8 >= static_cast<double>(size.height)) {
      image.scale_num = eighths;
      break;
    }
  }
  memory.add(library_bytes(image));
  if (!decoder.start()) decoder.fail_at(path);
  decoder.resizer.emplace(image.output_width, image.output_height, plain_grey ? 1 : 3, size);
  memory.add(decoder.resizer->bytes() +
             std::int64_t{image.output_width} * (image.output_components + (inks ? 3 : 0)));
  decoder.line.resize(std::size_t{image.output_width} * image.output_components);
  if (inks) decoder.colours.resize(std::size_t{image.output_width} * 3);
  while (image.output_scanline < image.output_height) {
    if (!decoder.read_line()) decoder.fail_at(path);
    if (inks) colours_of_inks(decoder.line, decoder.colours);
    decoder.resizer->line(inks ? decoder.colours.data() : decoder.line.data());
  }
  if (!decoder.finish()) decoder.fail_at(path);
  decoder.resizer->finish(out);
}

}  // namespace snug::data
