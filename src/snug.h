#pragma once
#include "api/devices.h"
#include "api/function.h"
#include "api/process_memory.h"
#include "autodiff/derivatives.h"
#include "autodiff/grad.h"
#include "base/file_error.h"
#include "data/loader.h"
#include "expr/serialize.h"
#include "io/checkpoints.h"
#include "io/tensor_file.h"
#include "nn/layers.h"
#include "nn/losses.h"
#include "nn/models.h"
#include "nn/prune.h"
#include "nn/summary.h"
#include "ops/functions.h"
#include "optim/optim.h"
#include "target/memory_budget.h"
#include "train/fit.h"
#include "train/saved_model.h"

/// Snug for C++ programs: expressions, gradients, compiled functions.
///
///   auto x = matrix("x"); auto W = shared(zeros({784, 10}), "W");
///   auto loss = mean(sqr(dot(x, W)));
///   auto gW = grad(loss, W);
///   auto train = function({x}, loss, {.updates = {{W, W - 0.1f * gW}}});
///   float l = train(images).item<float>();
