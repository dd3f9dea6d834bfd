// Runs one form of kernel as it is laid out for a card, on the first OpenCL device, and compares
// the result with the host's. Built and run by benchmarks/opencl_kernels.py.
//   opencl_forms                  names of all
//   FORM=softmax opencl_forms     this one
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "backend/devices.h"
#include "backend/opencl/find_devices.h"
#include "backend/opencl/opencl_device.h"
#include "compile.h"
#include "snug.h"

using namespace snug;

namespace {

Array numbers(const Dims& shape, unsigned seed) {
  Array a = Array::empty(DType::F32, shape);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    state = state * 1664525u + 1013904223u;
    a.set_double(i, static_cast<double>(state >> 8) / (1 << 23) - 1);
  }
  return a;
}

Array indices(std::int64_t count, std::int64_t below) {
  Array a = Array::empty(DType::I64, {count});
  for (std::int64_t i = 0; i < count; ++i) a.set_int(i, (i * 7919 + i * i) % below);
  return a;
}

struct Form {
  const char* name;
  std::vector<Expr> inputs;
  std::vector<Expr> outputs;
  std::vector<Array> arguments;
};

Expr normalised(const Expr& x) {
  const Expr centred = x - mean(x, {-1}, true);
  return centred / sqrt(mean(sqr(centred), {-1}, true) + 1e-5f);
}

std::vector<Form> all_forms() {
  const Expr a = matrix("a"), b = matrix("b"), v = vector("v"), t = tensor3("t"), u = tensor3("u"),
             x = tensor4("x"), w = tensor4("w"), i = lvector("i");
  const Expr conv = conv2d(x, w, {.border_mode = "half"});
  const Expr pooled = pool(x, {.window = {2, 2}});
  const auto conv_grad = [&](const Expr& by) { return grad(sum(conv * conv), by); };
  const Array images = numbers({1, 8, 32, 32}, 1), filters = numbers({64, 8, 3, 3}, 2);
  const auto two = [](const Dims& m, const Dims& n) {
    return std::vector<Array>{numbers(m, 1), numbers(n, 2)};
  };
  return {
      {"elementwise", {a, b}, {tanh(a * b + 0.5f)}, two({64, 500}, {64, 500})},
      {"broadcast row", {a, v}, {a + v}, two({64, 500}, {500})},
      {"broadcast column", {a, v}, {a + dimshuffle(v, {0, -1})}, two({64, 500}, {64})},
      {"transpose", {a}, {exp(transpose(a)) + 0.0f}, {numbers({200, 160}, 1)}},
      {"transpose and add", {a, b}, {transpose(a) + b}, two({200, 160}, {160, 200})},
      {"sums of short rows", {a}, {sum(a, {1})}, {numbers({4000, 10}, 1)}},
      {"sums of rows", {a}, {sum(a, {1})}, {numbers({100, 500}, 1)}},
      {"sums of long rows", {a}, {sum(a, {1})}, {numbers({2, 40000}, 1)}},
      {"sum of all", {a}, {sum(a)}, {numbers({200, 250}, 1)}},
      {"sums of columns", {a}, {sum(a, {0})}, {numbers({500, 100}, 1)}},
      {"sums of long columns", {a}, {sum(a, {0})}, {numbers({4000, 10}, 1)}},
      {"softmax of short rows", {a}, {softmax(a)}, {numbers({4000, 10}, 1)}},
      {"softmax", {a}, {softmax(a)}, {numbers({60, 500}, 1)}},
      {"layer norm", {a}, {normalised(a)}, {numbers({60, 500}, 1)}},
      {"product NN", {a, b}, {dot(a, b)}, two({128, 96}, {96, 128})},
      {"product NT", {a, b}, {dot(a, transpose(b))}, two({128, 96}, {128, 96})},
      {"product TN", {a, b}, {dot(transpose(a), b)}, two({96, 128}, {96, 128})},
      {"large product", {a, b}, {dot(a, b)}, two({256, 24}, {24, 256})},
      {"product with few rows", {a, b}, {dot(a, b)}, two({8, 500}, {500, 128})},
      {"product with long sums", {a, b}, {dot(transpose(a), b)}, two({2000, 20}, {2000, 24})},
      {"batched product", {t, u}, {batched_dot(t, u)}, two({4, 64, 48}, {4, 48, 64})},
      {"convolution", {x, w}, {conv}, {images, filters}},
      {"convolution, gradient by images", {x, w}, {conv_grad(x)}, {images, filters}},
      {"convolution, gradient by filters", {x, w}, {conv_grad(w)}, {images, filters}},
      {"max pool", {x}, {pooled}, {images}},
      {"max pool, gradient", {x}, {grad(sum(sqr(pooled)), x)}, {images}},
      {"gather", {a, i}, {subtensor(a, {i})}, {numbers({300, 100}, 1), indices(200, 300)}},
      {"scatter-add",
       {a, i, b},
       {inc_subtensor(a, {i}, b)},
       {numbers({300, 100}, 1), indices(200, 300), numbers({200, 100}, 2)}},
      {"concatenate", {a, b}, {concatenate({a, b}, 1)}, two({100, 150}, {100, 90})},
      {"slice",
       {a, b},
       {set_subtensor(a, {IndexItem::range(10, 90)}, b)},
       two({100, 200}, {80, 200})},
  };
}

/// The device, as a card says of itself.
OpenClFound as_card() {
  const OpenClSearch search = find_opencl_devices();
  if (search.devices.empty()) throw std::runtime_error("no OpenCL device: " + search.trouble);
  OpenClFound found = search.devices[0];
  found.name = "card:0";
  found.gpu = found.fma = true;
  found.local_memory = 48 << 10;
  found.most_items = 1024;
  return found;
}

int run(const Form& form) {
  const std::vector<Array> want = function(form.inputs, form.outputs).call(form.arguments);
  set_devices(host_and({std::make_shared<OpenClDevice>(as_card())}),
              [](std::uint32_t, const Node&) { return DeviceId{1}; });
  const std::vector<Array> got = function(form.inputs, form.outputs).call(form.arguments);
  for (std::size_t k = 0; k < want.size(); ++k)
    for (std::int64_t e = 0; e < want[k].size(); ++e)
      if (std::abs(want[k].at_double(e) - got[k].at_double(e)) >
          1e-3 * std::max(1.0, std::abs(want[k].at_double(e)))) {
        fmt::print(stderr, "{}: element {} of result {} is {}, not {}\n", form.name, e, k,
                   got[k].at_double(e), want[k].at_double(e));
        return 1;
      }
  return 0;
}

}  // namespace

int main() {
  const char* const wanted = std::getenv("FORM");
  for (const Form& form : all_forms()) {
    if (!wanted) fmt::print("{}\n", form.name);
    // Drivers end before this program does.
    if (wanted && std::string_view(wanted) == form.name) std::_Exit(run(form));
  }
  return wanted ? 2 : 0;
}
