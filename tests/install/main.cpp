// Logistic regression against the installed package; exits with 1 if it does not learn.
#include <snug/snug.h>

#include <cstdio>

using namespace snug;

int main() {
  // Four points in two classes, apart along the first axis.
  Array images = Array::from<float>({-2, 1, -1, -1, 1, 1, 2, -1}, {4, 2});
  Array labels = Array::from<std::int32_t>({0, 0, 1, 1}, {4});

  auto x = matrix("x");
  auto y = ivector("y");
  auto W = shared(zeros({2, 2}), "W");
  auto b = shared(zeros({2}), "b");
  auto loss = mean(categorical_crossentropy(softmax(dot(x, W) + b), y));
  auto [gW, gb] = grad(loss, W, b);
  auto train = function({x, y}, loss, {.updates = {{W, W - 0.1f * gW}, {b, b - 0.1f * gb}}});

  float first = train(images, labels).item<float>();
  float last = first;
  for (int i = 0; i < 100; ++i) last = train(images, labels).item<float>();
  std::printf("snug %s: loss %.3f -> %.3f\n", SNUG_VERSION, first, last);
  return last < 0.3f * first ? 0 : 1;
}
