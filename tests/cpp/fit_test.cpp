// The training loop, checkpoints and files of arrays, as a C++ program uses them.
#include <gtest/gtest.h>
#include <snug/snug.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "data/fingerprint.h"
#include "train/progress.h"
#include "train/trainer.h"

namespace {

using namespace snug;
namespace fs = std::filesystem;

/// A folder that goes away with the test.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "snug-fit-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
};

std::string bytes_of(const fs::path& path) {
  std::stringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

nn::LayerPtr model() {
  nn::LayerPtr m =
      nn::sequential({nn::dense(8, {.activation = "tanh"}), nn::dropout(0.25), nn::dense(2)});
  m->build({-1, 3});
  return m;
}

/// The class is the sign of the first number.
data::SourcePtr points(std::int64_t rows) {
  Array x = Recipe{DType::F32, {rows, 3}, Recipe::Kind::Normal, 0, 1, 5}.make();
  Array y = Array::empty(DType::I64, {rows});
  for (std::int64_t k = 0; k < rows; ++k) y.set_int(k, x.at_double(3 * k) > 0);
  return data::arrays({x, y});
}

nn::FitOptions options_in(const fs::path& folder) {
  nn::FitOptions o;
  o.epochs = 4;
  o.metrics = {"accuracy"};
  o.optim.rate = 0.05;
  o.folder = folder.string();
  o.checkpoint_steps = 3;
  o.progress = nn::Progress::Silent;
  return o;
}

TEST(Fit, Learns) {
  data::Loader loader(points(200), {.batch = 20});
  nn::FitOptions o;
  o.epochs = 8;
  o.metrics = {"accuracy"};
  o.optim.rate = 0.05;
  o.progress = nn::Progress::Silent;
  nn::LayerPtr m = model();
  nn::History h = nn::fit(*m, loader, o);
  ASSERT_EQ(h.epochs.size(), 8u);
  EXPECT_GT(h.values("accuracy").back(), 0.9);
  EXPECT_EQ(h.epochs.back().step, 80);
}

TEST(Fit, EvaluatesAndTakesAPrecision) {
  data::Loader loader(points(200), {.batch = 20});
  nn::FitOptions o;
  o.epochs = 4;
  o.metrics = {"accuracy"};
  o.optim.rate = 0.05;
  o.precision = DType::BF16;
  o.progress = nn::Progress::Silent;
  data::Loader held_out(data::split(points(100), {0.5, 0.5}, 7)[0], {.batch = 8, .shuffle = false});
  o.validation = &held_out;
  nn::LayerPtr m = model();
  const nn::History h = nn::fit(*m, loader, o);
  const auto found = nn::evaluate(*m, held_out, o);
  EXPECT_EQ(found.at("loss"), h.values("validation_loss").back());
  EXPECT_EQ(found.at("accuracy"), h.values("validation_accuracy").back());
  EXPECT_EQ(m->parameters()[0].variable.dtype(), DType::F32);
}

/// `points` with weights that alternate between 0 and `high`.
data::SourcePtr weighted_points(std::int64_t rows, double high) {
  Array w = Array::empty(DType::F64, {rows});
  for (std::int64_t k = 0; k < rows; ++k) w.set_double(k, k % 2 == 0 ? 0 : high);
  return data::zip({points(rows), data::arrays({w})});
}

TEST(Fit, MeansAreWeighted) {
  // Rows that weigh nothing are not there: the others, evaluated alone, give the same.
  const std::vector<Array> all = points(60)->read(0, 60);
  Array x = Array::empty(DType::F32, {30, 3}), y = Array::empty(DType::I64, {30});
  for (std::int64_t k = 0; k < 30; ++k) {
    for (std::int64_t i = 0; i < 3; ++i)
      x.set_double(3 * k + i, all[0].at_double(3 * (2 * k + 1) + i));
    y.set_int(k, all[1].at_int(2 * k + 1));
  }
  nn::FitOptions o;
  o.metrics = {"accuracy"};
  data::Loader half(data::arrays({x, y}), {.batch = 7}),
      weighted(weighted_points(60, 3), {.batch = 8});
  nn::LayerPtr m = model();
  const auto a = nn::evaluate(*m, half, o), b = nn::evaluate(*m, weighted, o);
  EXPECT_NEAR(a.at("loss"), b.at("loss"), 1e-6);
  EXPECT_NEAR(a.at("accuracy"), b.at("accuracy"), 1e-6);

  // A class that weighs nothing is not there, either.
  o.class_weight = {0, 2};
  double sum = 0, count = 0;
  for (std::int64_t k = 0; k < 30; ++k) {
    if (y.at_int(k) == 0) continue;
    data::Loader one(data::slice(data::arrays({x, y}), k, k + 1), {});
    sum += nn::evaluate(*m, one, {}).at("loss");
    count += 1;
  }
  EXPECT_NEAR(nn::evaluate(*m, weighted, o).at("loss"), sum / count, 1e-6);

  data::Loader wrong(weighted_points(60, -1), {});
  o.progress = nn::Progress::Silent;
  EXPECT_THROW(nn::fit(*m, wrong, o), Error);
  data::Loader four(data::zip({points(60), points(60)}), {});
  EXPECT_THROW(nn::fit(*m, four, o), Error);
}

TEST(Fit, PlansWithoutData) {
  nn::LayerPtr m = model();
  const std::vector<data::Field> fields = {{"x", DType::F32, {3}}, {"y", DType::I64, {}}};
  data::Loader few(points(8), {.batch = 128});
  const MemoryReport a = nn::plan(*m, fields, 128), b = nn::plan(*m, few);
  EXPECT_EQ(a.inputs, 128 * (3 * 4 + 8));
  EXPECT_EQ(a.peak, b.peak);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.parameters, 4 * (3 * 8 + 8 + 8 * 2 + 2));  // the counter of dropout is none
  EXPECT_THROW(nn::plan(*m, fields, 0), Error);
}

TEST(Fit, FingerprintsOfDataOfAnySize) {
  const auto of = [](const data::SourcePtr& source) { return data::fingerprint(*source); };
  const data::Fingerprint now = of(points(100));
  EXPECT_EQ(data::difference(now.text(), of(points(100))), "");
  EXPECT_EQ(data::difference(now.text(), of(points(99))), "they have 99 rows, not 100");
  EXPECT_EQ(data::difference(now.text(), of(weighted_points(100, 1))), "they have 3 fields, not 2");
  // Every row of small data counts, and so does the order of rows.
  std::vector<Array> arrays = points(100)->read(0, 100);
  arrays[1].set_int(61, 7);
  EXPECT_EQ(data::difference(now.text(), of(data::arrays(arrays))),
            "other values in the field (1: int64 ())");
  const data::SourcePtr turned =
      data::concat({data::slice(points(100), 50, 100), data::slice(points(100), 0, 50)});
  EXPECT_EQ(data::difference(now.text(), of(turned)),
            "other values in the fields (0: float32 (3,)), (1: int64 ())");
  EXPECT_FALSE(data::difference("damaged", now).empty());
  // A tebirow: its first and its last row count, and few between them are read.
  Array row = Array::from(std::vector<float>{1, 2, 3}, {1, 3});
  Array many = row;
  many.shape[0] = std::int64_t{1} << 40;
  many.strides[0] = 0;
  const data::Fingerprint huge = of(data::arrays({many}));
  EXPECT_EQ(huge.rows, std::int64_t{1} << 40);
  EXPECT_EQ(data::difference(huge.text(), of(data::arrays({many}))), "");
  Array other = Array::from(std::vector<float>{1, 2, 4}, {1, 3});
  Array rest = many;
  rest.shape[0] -= 1;
  EXPECT_FALSE(
      data::difference(huge.text(), of(data::concat({data::arrays({other}), data::arrays({rest})})))
          .empty());
  EXPECT_FALSE(
      data::difference(huge.text(), of(data::concat({data::arrays({rest}), data::arrays({other})})))
          .empty());
}

TEST(Fit, AnInterruptedTrainingEndsWithTheSameBits) {
  Folder folder;
  data::Loader whole_data(points(100), {.batch = 16});
  nn::LayerPtr whole = model();
  nn::FitOptions o = options_in(folder.path / "whole");
  nn::fit(*whole, whole_data, o);

  o.folder = (folder.path / "parts").string();
  o.resume = true;
  std::int64_t parts = 0;
  for (bool done = false; !done; ++parts) {
    data::Loader loader(points(100), {.batch = 16});
    nn::LayerPtr m = model();
    o.on_epoch = [](const nn::Epoch& e) {
      if (e.number % 2 == 1) request_interrupt();  // honoured in the next step
      return true;
    };
    done = !nn::fit(*m, loader, o).interrupted;
    clear_interrupt();
    ASSERT_LT(parts, 10);
  }
  EXPECT_GT(parts, 1);
  for (const auto& entry : fs::directory_iterator(folder.path / "whole"))
    EXPECT_EQ(bytes_of(entry.path()), bytes_of(folder.path / "parts" / entry.path().filename()))
        << entry.path();
}

TEST(Fit, RestartBeginsAnew) {
  data::Loader data(points(60), {.batch = 16});
  nn::FitOptions o;
  o.epochs = 2;
  o.progress = nn::Progress::Silent;
  nn::LayerPtr m = model();
  nn::Trainer trainer(*m, data.fields(), o);
  const data::LoaderState begin = data.state();
  nn::History first = nn::fit(trainer, data, o);
  data.seek(begin);
  trainer.restart(*model());
  nn::History second = nn::fit(trainer, data, o);
  EXPECT_EQ(first.values("loss"), second.values("loss"));
}

TEST(Fit, LoadsWhatFits) {
  Folder folder;
  const std::string path = (folder.path / "model.safetensors").string();
  nn::save(*model(), path);
  nn::LayerPtr other = nn::sequential({nn::dense(8), nn::dropout(0.25), nn::dense(3)});
  other->build({-1, 3});
  EXPECT_THROW(nn::load(*other, path), Error);
  const nn::LoadReport report = nn::load(*other, path, false);
  EXPECT_EQ(report.loaded, (std::vector<std::string>{"0.weight", "0.bias"}));
  EXPECT_EQ(report.different.size(), 2u);
  EXPECT_FALSE(report.complete());
  EXPECT_TRUE(nn::load(*model(), path).complete());
  try {
    nn::load(*other, path + "x.npz");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ENOENT);
    EXPECT_EQ(error.path(), path + "x.npz");
  }
}

TEST(Fit, TheBarKeepsWhatIsImportant) {
  nn::ProgressView::Numbers n;
  n.epoch = 3;
  n.epochs = 10;
  n.batch = 100;
  n.batches = 1000;
  n.rows = 12800;
  n.seconds = 10;
  n.loss = 0.5;
  n.metric = 0.75;
  n.metric_name = "accuracy";
  n.memory = "500.00 MiB";
  const std::string wide = nn::ProgressView::bar(n, 120);
  EXPECT_EQ(wide.size(), 119u);
  for (const char* part : {"[==", "accuracy 0.7500", "1280 rows/s", "500.00 MiB", "ETA 13:10"})
    EXPECT_NE(wide.find(part), std::string::npos) << part << " in " << wide;
  for (int width : {80, 64, 50}) {
    const std::string bar = nn::ProgressView::bar(n, width);
    EXPECT_LT(bar.size(), static_cast<std::size_t>(width));
    EXPECT_TRUE(bar.ends_with("ETA 13:10")) << bar;
    EXPECT_EQ(bar.find("rows/s"), std::string::npos) << bar;
    EXPECT_EQ(bar.find("accuracy") != std::string::npos, width > 50) << bar;
  }
}

TEST(Optim, ARuleFromCpp) {
  Expr p = shared(Array::scalar(2.0), "p");
  Function step =
      function({}, std::vector<Expr>{}, {.updates = optim::sgd(sqr(p), {p}, {.rate = 0.25}).pairs});
  step.call({});
  EXPECT_EQ(as_shared(p)->get_value().item<double>(), 1);
}

TEST(Files, BothKinds) {
  Folder folder;
  io::TensorFile file{{{"a", Array::from(std::vector<float>{1, 2, 3}, {3})}}, {}};
  for (const char* name : {"a.safetensors", "a.npz"}) {
    const std::string path = (folder.path / name).string();
    io::save(path, file);
    const io::TensorFile found = io::load(path);
    ASSERT_TRUE(found.find("a"));
    EXPECT_TRUE(same_bits(*found.find("a"), file.tensors[0].array));
  }
}

}  // namespace
