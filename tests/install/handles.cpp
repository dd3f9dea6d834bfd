// What an engineer relies on who holds the installed library: exits with 1 and says what is wrong.
#include <snug/snug.h>

#include <cstdio>
#include <cstring>

using namespace snug;

namespace {

int wrong = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("wrong: %s\n", what);
  ++wrong;
}

/// `f` throws an E.
template <class E, class F>
void expect_error(F&& f, const char* what) {
  try {
    f();
    std::printf("wrong: no error: %s\n", what);
  } catch (const E&) {
    return;
  } catch (const std::exception& e) {
    std::printf("wrong: %s: %s\n", what, e.what());
  }
  ++wrong;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "flags") == 0) {
    // With SNUG_FLAGS="floatX=float64,threads=1,memory=64MiB".
    expect(matrix("x").dtype() == DType::F64, "floatX");
    expect(FunctionOptions{}.threads == 1 && nn::FitOptions{}.threads == 1, "threads");
    expect(memory_budget() == std::uint64_t{64} << 20, "memory");
    expect_error<MemoryError>([] { shared(zeros({16 << 20})); }, "a budget of the environment");
    return wrong != 0;
  }
  if (argc > 1) {  // with flags that are wrong
    try {
      matrix("x");
    } catch (const ValueError& e) {
      std::printf("%s\n", e.what());
      return 0;
    }
    return 1;
  }

  auto x = matrix("x");
  auto f = function({x}, x * 2.0f);
  const float data[] = {1, 2, 3};
  float out[3] = {};
  const ArgView view{reinterpret_cast<const std::byte*>(data), DType::F32, {1, 3}};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(out)};
  f.run_into({&view, 1}, outputs);
  expect(out[0] == 2 && out[1] == 4 && out[2] == 6, "strides left empty");

  expect_error<ValueError>([&] { f.run_into({&view, 1}, {}); }, "no outputs");
  expect_error<TypeError>([] { Array{}.item<float>(); }, "an empty array");
  expect_error<TypeError>([] { Function{}(zeros({1})); }, "an empty function");
  expect_error<TypeError>([&] { x + Expr{}; }, "an empty expression");
  expect_error<IndexError>([&] { f.input_name(9); }, "input 9");
  expect_error<TypeError>([] { zeros({2}).typed<double>(); }, "double of float32");
  expect(f.memory({{4, 8}}).outputs == 128 && f.memory({{"x", {4, 8}}}).outputs == 128, "shapes");
  expect(f.max_batch({{1, 8}}, "1MiB").rows > 0, "max_batch");

  auto small = function({x}, sum(exp(x) * cos(x), 0), {.name = "small", .memory = "1KiB"});
  try {
    small(zeros({1000, 100}));
    expect(false, "a refusal");
  } catch (const MemoryError& e) {
    expect(e.allowed() == 1024 && e.needed() > 1024, "the numbers of a refusal");
    expect(!e.remedies().empty() && e.remedies().back().peak > 0, "its remedies");
    expect(std::strstr(e.what(), "memory=") == nullptr, "it speaks C++");
  }
  try {
    function({x}, dot(x, x))(zeros({2, 3}));
    expect(false, "a wrong product");
  } catch (const ShapeError& e) {
    expect(std::strstr(e.what(), "handles.cpp:") != nullptr, "the line of the program");
  }
  if (wrong == 0) std::printf("handles: right\n");
  return wrong != 0;
}
