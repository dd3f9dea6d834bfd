// The training loop, checkpoints and files of arrays, as a C++ program uses them.
#include <gtest/gtest.h>
#include <snug/snug.h>

#include <filesystem>
#include <fstream>
#include <sstream>

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
  n.bytes = 500 << 20;
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
