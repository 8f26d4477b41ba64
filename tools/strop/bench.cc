// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "artifact_folder.h"
#include "base/machine.h"
#include "example_inputs.h"
#include "inspect_report.h"
#include "progress.h"
#include "providers/cpu/simd/peak.h"
#include "strop/environment.h"
#include "strop/module.h"
#include "strop/optimizer.h"
#include "usage.h"
#include "verbs.h"
#include "whole_number.h"

namespace strop {
namespace {

using Clock = std::chrono::steady_clock;

// Steps before the measured ones, so that caches and predictors have settled.
constexpr int kWarmUp = 2;
// Thousands of steps on one batch would drive gradients to zero and moments
// into denormal numbers, which are slow. This rate changes nothing.
constexpr float kStandingRate = 1e-9f;

struct BenchOptions {
  std::filesystem::path folder, checkpoint;
  ExampleShapes shapes;
  int64_t steps = 20;
  int threads = 0;
  bool json = false;
};

double Milliseconds(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin)
      .count();
}

// A training run that goes nowhere: its batch is noise with labels of zero.
class Run {
 public:
  Run(const ArtifactFolder& artifacts, const BenchOptions& options,
      const SessionOptions& session, const Environment& environment)
      : state_(CheckpointState::Load(
            artifacts.CheckpointToUse(options.checkpoint, environment.files()),
            environment)),
        module_(artifacts.models(), &state_, session, environment),
        inputs_(ExampleInputs(module_.TrainingInputs(), options.shapes)),
        views_(inputs_.begin(), inputs_.end()) {
    if (artifacts.optimizer) {
      optimizer_.emplace(artifacts.models(), &state_, session, environment);
      optimizer_->SetLearningRate(kStandingRate);
    }
  }

  void FillWithNoise() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (OwnedTensor& input : inputs_) {
      if (input.type() != DataType::kFloat32) continue;
      for (float& x : input.values<float>()) x = normal(random);
    }
  }

  // A step as a training loop has it, and the milliseconds it took.
  double Step() {
    const Clock::time_point begin = Clock::now();
    module_.TrainStep(views_, &outputs_);
    if (optimizer_) {
      const Clock::time_point middle = Clock::now();
      optimizer_->Step();
      optimizer_ms_ += Milliseconds(middle);
    }
    module_.LazyResetGrad();
    return Milliseconds(begin);
  }

  Module& module() { return module_; }
  // Times count from here on. Before, steps waited for the system to find the
  // memory that they write for the first time.
  void ForgetTimes() {
    optimizer_ms_ = 0;
    forgotten_events_ = Json::parse(module_.Profile()).size();
  }
  double optimizer_ms() const { return optimizer_ms_; }
  // What the profile tells, one event for each kernel and step.
  Json Events() const {
    Json events = Json::parse(module_.Profile());
    events.erase(events.begin(),
                 events.begin() + static_cast<ptrdiff_t>(forgotten_events_));
    return events;
  }
  Json Plan() {
    return Json::parse(module_.DescribePlan(/*training=*/true, views_,
                                            Module::PlanFormat::kJson));
  }

 private:
  CheckpointState state_;
  Module module_;
  std::vector<OwnedTensor> inputs_;
  std::vector<Tensor> views_;
  std::optional<Optimizer> optimizer_;
  std::vector<OwnedTensor> outputs_;
  double optimizer_ms_ = 0;
  size_t forgotten_events_ = 0;
};

// One row of the table: what kernels of one name did for one op.
struct OpTime {
  std::string op, kernel;
  double calls = 0, ms = 0;  // a step
  double flops = 0;          // a step, of the calls that state them
  double stated_ms = 0;      // of those calls
};

// Sums of a profile, the longest first.
std::vector<OpTime> OpTimes(Run& run, int steps) {
  std::map<std::pair<std::string, std::string>, OpTime> times;
  for (const Json& event : run.Events()) {
    if (!event.contains("dur")) continue;
    const auto name = event["name"].get<std::string>();
    const std::string op = name.substr(0, name.find(' '));
    const Json& arguments = event["args"];
    const auto kernel = arguments["kernel"].get<std::string>();
    OpTime& time = times[{op, kernel}];
    time.op = op;
    time.kernel = kernel;
    const auto ms = arguments["ms"].get<double>();
    time.calls += 1.0 / steps;
    time.ms += ms / steps;
    if (arguments.contains("GFLOP/s")) {
      time.flops += arguments["GFLOP/s"].get<double>() * ms * 1e6 / steps;
      time.stated_ms += ms / steps;
    }
  }
  std::vector<OpTime> rows;
  for (auto& [key, time] : times) rows.push_back(std::move(time));
  if (run.optimizer_ms() > 0) {
    rows.push_back({.op = "(optimizer)",
                    .kernel = "",
                    .calls = 1,
                    .ms = run.optimizer_ms() / steps});
  }
  std::ranges::sort(rows, std::greater(), &OpTime::ms);
  return rows;
}

Json Rows(const std::vector<OpTime>& times, double peak_flops) {
  double sum = 0;
  for (const OpTime& time : times) sum += time.ms;
  Json rows = Json::array();
  for (const OpTime& time : times) {
    Json row = {{"op", time.op},
                {"kernel", time.kernel},
                {"calls", time.calls},
                {"ms", time.ms},
                {"share", sum > 0 ? time.ms / sum : 0}};
    if (time.flops > 0 && time.stated_ms > 0) {
      const double flops = time.flops / time.stated_ms * 1e3;
      row["GFLOP/s"] = flops * 1e-9;
      row["of_peak"] = flops / peak_flops;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json Measure(const BenchOptions& options, const Environment& environment) {
  const ArtifactFolder artifacts =
      ArtifactFolder::Open(options.folder, environment.files());
  SessionOptions session;
  session.num_threads = options.threads;
  Json report;
  {
    const Clock::time_point begin = Clock::now();
    Run run(artifacts, options, session, environment);
    const double load_ms = Milliseconds(begin);
    run.FillWithNoise();
    report["first_step_ms"] = load_ms + run.Step();
    for (int i = 0; i < kWarmUp; ++i) run.Step();
    std::vector<double> times;
    for (int64_t i = 0; i < options.steps; ++i) times.push_back(run.Step());
    std::ranges::sort(times);
    report["steps"] = options.steps;
    report["step_median_ms"] = times[times.size() / 2];
    report["step_best_ms"] = times.front();
    report["plan_bytes"] = run.Plan()["peak_bytes"];
    report["peak_resident_bytes"] = PeakResidentBytes();
  }
  // Times of single kernels from a run of their own: taking them costs time.
  session.enable_profiling = true;
  Run profiled(artifacts, options, session, environment);
  profiled.FillWithNoise();
  for (int i = 0; i < kWarmUp; ++i) profiled.Step();
  profiled.ForgetTimes();
  const int steps = static_cast<int>(std::min<int64_t>(options.steps, 10));
  for (int i = 0; i < steps; ++i) profiled.Step();
  const int threads = options.threads > 0 ? options.threads : AvailableCores();
  const double peak = MeasurePeakFlops() * threads;
  report["threads"] = threads;
  report["peak_GFLOP/s"] = peak * 1e-9;
  report["ops"] = Rows(OpTimes(profiled, steps), peak);
  return report;
}

void PrintReport(const Json& report) {
  const auto number = [&](const char* key) {
    return report[key].get<double>();
  };
  fmt::print("step        median {:.4g} ms, best {:.4g} ms ({} steps)\n",
             number("step_median_ms"), number("step_best_ms"),
             report["steps"].get<int64_t>());
  fmt::print("first step  {:.4g} ms, loading included\n",
             number("first_step_ms"));
  fmt::print("memory      plan {:.1f} MB, the whole process {:.1f} MB\n",
             number("plan_bytes") * 1e-6, number("peak_resident_bytes") * 1e-6);
  fmt::print("peak        {:.1f} GFLOP/s with {} threads\n\n",
             number("peak_GFLOP/s"), report["threads"].get<int>());
  fmt::print("{:32} {:22} {:>6} {:>10} {:>6} {:>8} {:>7}\n", "op", "kernel",
             "calls", "ms", "share", "GFLOP/s", "of peak");
  for (const Json& row : report["ops"]) {
    fmt::print("{:32} {:22} {:6.0f} {:10.4f} {:5.1f}%",
               row["op"].get<std::string>(), row["kernel"].get<std::string>(),
               row["calls"].get<double>(), row["ms"].get<double>(),
               100 * row["share"].get<double>());
    if (row.contains("GFLOP/s")) {
      fmt::print(" {:8.2f} {:6.1f}%", row["GFLOP/s"].get<double>(),
                 100 * row["of_peak"].get<double>());
    }
    fmt::print("\n");
  }
}

int RunBench(const BenchOptions& options) {
  Progress progress;
  const Environment environment({.num_threads = options.threads,
                                 .log = progress.log_sink(),
                                 .files = nullptr});
  const Json report = Measure(options, environment);
  if (options.json) {
    fmt::print("{}\n", report.dump(2));
  } else {
    PrintReport(report);
  }
  return 0;
}

}  // namespace

void AddBenchVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "bench", "Measure train steps of a folder of artifacts; writes nothing");
  auto options = std::make_shared<BenchOptions>();
  verb->add_option("DIR", options->folder, "A folder of artifacts")->required();
  verb->add_option("--steps", options->steps, "Steps to measure (default 20)")
      ->check(WholeNumber(1, 1'000'000));
  verb->add_option("--threads", options->threads,
                   "Threads of a step (default: one per core)")
      ->check(WholeNumber(0, kMostThreads));
  AddExampleShapes(*verb, &options->shapes);
  verb->add_option("--checkpoint", options->checkpoint,
                   "Use this checkpoint of the folder's model")
      ->check(CheckNotEmpty);
  verb->add_flag("--json", options->json, "Print JSON");
  verb->footer(
      "A step is forward, backward, optimizer and the reset of gradients, on\n"
      "noise with labels of zero. Times of single kernels come from a second\n"
      "run; GFLOP/s stand where a kernel knows its operations.\n\n"
      "Example:\n"
      "  strop bench lenet --batch-size 64 --threads 1");
  verb->callback([options, exit_code] { *exit_code = RunBench(*options); });
}

}  // namespace strop
