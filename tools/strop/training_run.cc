// SPDX-License-Identifier: Apache-2.0
//
// A training run. Its state changes in two places only: at an optimizer step
// and when a checkpoint is written. A run can be broken off after any
// optimizer step; what goes on from there is what would have come.
#include "training_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "artifact_folder.h"
#include "base/thread_pool.h"
#include "base/throw.h"
#include "checkpoint/parameter_store.h"
#include "eval_roles.h"
#include "evaluation.h"
#include "interrupt.h"
#include "metrics.h"
#ifndef STROP_NO_AUTODIFF
#include "prepared_files.h"
#endif
#include "base/path_text.h"
#include "progress.h"
#include "run_state.h"
#include "saturated.h"
#include "strop/environment.h"
#include "strop/lr_scheduler.h"
#include "strop/module.h"
#include "strop/optimizer.h"
#include "strop/random.h"
#include "training/finite.h"
#include "usage.h"
#include "write_guard.h"

namespace strop {
namespace {

constexpr char kLinear[] = "linear";
constexpr char kModelName[] = "model.onnx";

std::filesystem::path OutputFolder(const TrainOptions& options,
                                   const ArtifactFolder& artifacts,
                                   FileSystem& files) {
  const std::filesystem::path output =
      options.output.empty() ? artifacts.trained() : options.output;
  if (files.Exists(output / artifacts.train.filename())) {
    Throw(ErrorCode::kInvalidArgument,
          "{} {} is a folder of artifacts, which are never overwritten",
          options.output.empty() ? "the output" : "--output", PathText(output));
  }
  return output;
}

using Paths = std::vector<std::filesystem::path>;

#ifndef STROP_NO_AUTODIFF
// The artifacts of a bare model, made in memory; null where `folder` is one.
// `sources` are what it was read from.
std::shared_ptr<FileSystem> PrepareModel(const TrainOptions& options,
                                         const LogSink& log,
                                         std::filesystem::path* folder,
                                         Paths* sources) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(*folder, ignored) ||
      (!options.prepare.any() && folder->extension() != ".onnx")) {
    if (options.prepare.any()) {
      ThrowUsage("--loss is for a model: {} is none", folder->string());
    }
    return nullptr;
  }
  auto files = std::make_shared<PreparedFiles>(*folder, options.prepare, log);
  *folder = files->folder();
  *sources = files->sources();
  return files;
}
#else
std::shared_ptr<FileSystem> PrepareModel(const TrainOptions&, const LogSink&,
                                         std::filesystem::path*, Paths*) {
  return nullptr;
}
#endif

// Inputs that are trained themselves have their gradients among the inputs.
void CheckNoTrainedInput(const std::vector<Module::InputInfo>& inputs) {
  constexpr std::string_view kBuffer = "_grad.accumulation.buffer";
  for (const Module::InputInfo& input : inputs) {
    if (!input.name.ends_with(kBuffer)) continue;
    Throw(ErrorCode::kInvalidArgument,
          "the training model puts out the gradient of \"{}\", which is none "
          "of the checkpoint's parameters: no step of strop train has a place "
          "for it; make artifacts that train parameters only",
          input.name.substr(0, input.name.size() - kBuffer.size()));
  }
}

// What is read is not written over; what cannot be written is said at once.
// `sources`: of a bare model.
void CheckTargets(const TrainOptions& options, const Paths& sources,
                  const ArtifactFolder& artifacts,
                  const std::filesystem::path& output) {
  WriteGuard guard;
  guard.Protect(artifacts);
  guard.Protect(options.folder);  // a bare model
  for (const std::filesystem::path& source : sources) guard.Protect(source);
  guard.Protect(options.data);
  guard.Protect(options.validation);
  guard.AllowFolder(output);
  // A run may go on from its output's checkpoint and replace it by what comes
  // of it: what is checked up to here is not protected.
  for (const char* name : {kCheckpointName, kModelName}) {
    std::filesystem::path path = output / name;
    guard.Check("the output", path);
    guard.Check("the output", path += ".data");
    guard.ProtectOutput(output / name);
  }
  guard.Protect(options.checkpoint);
  guard.Check("--profile", options.profile);
  guard.ProtectOutput(options.profile);
  // Lines may go to a pipe or a device, in which nothing is lost.
  std::error_code ignored;
  const auto metrics = std::filesystem::status(options.metrics, ignored);
  if (!std::filesystem::is_other(metrics)) {
    guard.Check("--metrics", options.metrics);
  }
}

// Throws kNonFinite if a parameter or moment is infinite or not a number:
// such a state is worth nothing and must not replace a good one.
void CheckFinite(const ParameterStore& store) {
  for (const Parameter& parameter : store.parameters) {
    if (IsFinite(parameter.value)) continue;
    Throw(ErrorCode::kNonFinite,
          "parameter \"{}\" became infinite or not a number; a smaller "
          "learning rate (--lr) may help",
          parameter.name);
  }
  for (const auto& [group, state] : store.groups) {
    for (const auto& [name, moments] : state.parameters) {
      for (const auto& [moment, value] : moments) {
        if (IsFinite(value)) continue;
        Throw(ErrorCode::kNonFinite,
              "{} of parameter \"{}\" became infinite or not a number; a "
              "smaller learning rate (--lr) may help",
              moment, name);
      }
    }
  }
}

CheckpointState LoadStart(const TrainOptions& options,
                          const ArtifactFolder& artifacts,
                          const std::filesystem::path& output,
                          const Environment& environment) {
  std::filesystem::path path = artifacts.checkpoint;
  if (!options.checkpoint.empty()) path = options.checkpoint;
  if (options.resume) {
    path = output / kCheckpointName;
    if (!environment.files().Exists(path)) {
      Throw(ErrorCode::kNotFound,
            "--resume: there is no {}; nothing was trained there yet",
            PathText(path));
    }
  }
  CheckpointState state = CheckpointState::Load(path, environment);
  if (state.is_nominal()) {
    Throw(ErrorCode::kInvalidArgument,
          "{} is nominal: it holds names of parameters without values",
          PathText(path));
  }
  return state;
}

// A resumed run keeps what it was started with.
template <class T>
void KeepOrSet(const char* option, bool resume, const std::optional<T>& wanted,
               int64_t* value) {
  if (!wanted) return;
  if (resume && static_cast<int64_t>(*wanted) != *value) {
    ThrowUsage(
        "{} {}: the run that is resumed has {}; leave it out, or start "
        "anew without --resume",
        option, static_cast<int64_t>(*wanted), *value);
  }
  *value = static_cast<int64_t>(*wanted);
}

void KeepOrSetScales(bool resume, std::vector<std::string> wanted,
                     std::vector<std::string>* scales) {
  if (wanted.empty()) return;
  std::ranges::sort(wanted);
  if (resume && wanted != *scales) {
    ThrowUsage(
        "--scale {}: the run that is resumed has {}; leave it out, or start "
        "anew without --resume",
        fmt::join(wanted, ", "),
        scales->empty() ? "none" : fmt::format("{}", fmt::join(*scales, ", ")));
  }
  *scales = std::move(wanted);
}

double LossValue(const Tensor& loss) {
  if (loss.element_count() != 1) {
    Throw(ErrorCode::kInvalidArgument,
          "the loss (output 0 of the training model) has shape {}; wanted one "
          "number",
          loss.shape().ToString());
  }
  return FloatValue(loss);
}

class TrainingRun {
 public:
  explicit TrainingRun(const TrainOptions& options);
  int Run();

 private:
  std::unique_ptr<Environment> MakeEnvironment(int64_t threads) {
    return std::make_unique<Environment>(
        EnvironmentOptions{.num_threads = static_cast<int>(threads),
                           .log = progress_.log_sink(),
                           .files = prepared_});
  }
  void SetUpThreads();
  void SetUpSessions();
  SessionOptions MakeSessionOptions() const;
  void SetUpRun();
  void SetUpRate();
  void Announce();
  int64_t StepsOfEpoch() const {
    return (order_->batch_count() - 1) / accumulate_ + 1;
  }
  // What remains on disk, for the end of an error message.
  std::string KeptState() const;

  void TrainBatch();
  void OptimizerStep();
  void EndEpoch();
  Json Validate();
  void AddValidation(std::string* line, Json* event);
  void ShowProgress();
  void Save();
  void Finish();

  const TrainOptions& options_;
  Progress progress_;
  std::filesystem::path folder_;
  Paths sources_;  // of a bare model
  std::shared_ptr<FileSystem> prepared_;
  // Reads and writes the state; its threads never start. How many threads the
  // sessions have is in the checkpoint of a run that is resumed.
  std::unique_ptr<Environment> file_environment_;
  FileSystem& files_;
  ArtifactFolder artifacts_;
  std::filesystem::path output_;
  CheckpointState state_;
  RunState run_;
  std::unique_ptr<Environment> environment_;  // of the sessions
  EvalRoles roles_;  // of the eval model, if there is one
  std::unique_ptr<Module> module_;
  std::shared_ptr<Optimizer> optimizer_;
  std::unique_ptr<LRScheduler> scheduler_;
  std::unique_ptr<Dataset> data_, validation_;
  std::unique_ptr<BatchOrder> order_;
  std::unique_ptr<MetricsWriter> metrics_;
  int64_t accumulate_ = 1;  // train steps of an optimizer step, in this run
  int64_t total_steps_ = 0;
  bool checkpoint_written_ = false;

  // Of the step in hand.
  std::vector<OwnedTensor> batch_, outputs_;
  std::vector<Tensor> inputs_;
  int64_t accumulated_ = 0;

  // Of the epoch in hand, as far as this process has run it.
  int64_t epoch_rows_ = 0;
  double epoch_start_ = 0;
  // Of this process.
  int64_t rows_ = 0, batches_ = 0, first_step_ = 0;
};

TrainingRun::TrainingRun(const TrainOptions& options)
    : options_(options),
      folder_(options.folder),
      prepared_(
          PrepareModel(options, progress_.log_sink(), &folder_, &sources_)),
      file_environment_(MakeEnvironment(/*threads=*/1)),
      files_(file_environment_->files()),
      artifacts_(ArtifactFolder::Open(folder_, files_)),
      output_(OutputFolder(options, artifacts_, files_)),
      state_(LoadStart(options, artifacts_, output_, *file_environment_)) {
  CheckTargets(options, sources_, artifacts_, output_);
  if (!artifacts_.optimizer) {
    Throw(ErrorCode::kNotFound,
          "{} has no optimizer_model.onnx, without which nothing can be "
          "trained",
          PathText(options.folder));
  }
  if (!options.validation.inputs.empty() && !artifacts_.eval) {
    Throw(ErrorCode::kNotFound,
          "--validation needs an eval_model.onnx in {}, which is not there",
          PathText(options.folder));
  }
  if (options.resume && !run_.Load(state_)) {
    Throw(ErrorCode::kInvalidFile,
          "--resume: {} was not written by strop train",
          PathText(output_ / kCheckpointName));
  }
  KeepOrSet("--seed", options.resume, options.seed, &run_.seed);
  SetSeed(run_.seed);
  SetUpThreads();
  SetUpSessions();
  SetUpRun();
  SetUpRate();
  files_.CreateDirectories(output_);
  std::optional<int64_t> last_step;
  if (options.resume) last_step = run_.step;
  metrics_ = std::make_unique<MetricsWriter>(options.metrics, last_step);
}

// Other than the rest, threads may change in a run: a machine may have less.
void TrainingRun::SetUpThreads() {
  int64_t threads = options_.resume ? run_.threads : 0;  // 0: all cores
  if (options_.threads) threads = *options_.threads;
  environment_ = MakeEnvironment(std::min<int64_t>(threads, kMostThreads));
  run_.threads = environment_->thread_pool().num_threads();
}

void TrainingRun::SetUpSessions() {
  const SessionOptions session = MakeSessionOptions();
  const ModelIdentifiers models = artifacts_.models();
  module_ = std::make_unique<Module>(models, &state_, session, *environment_);
  CheckNoTrainedInput(module_->TrainingInputs());
  optimizer_ =
      std::make_shared<Optimizer>(models, &state_, session, *environment_);
  KeepOrSetScales(options_.resume, options_.data.scales, &run_.scales);
  // The validation samples are made the same way.
  DataOptions data = options_.data, validation = options_.validation;
  data.scales = validation.scales = run_.scales;
  data_ = std::make_unique<Dataset>(data, module_->TrainingInputs(), files_);
  if (!validation.inputs.empty()) {
    validation_ =
        std::make_unique<Dataset>(validation, module_->EvalInputs(), files_);
  }
  if (artifacts_.eval) {
    roles_ = ReadEvalRoles(*artifacts_.eval, state_, files_);
  }
}

SessionOptions TrainingRun::MakeSessionOptions() const {
  SessionOptions session;
  session.non_finite = SessionOptions::NonFinite::kError;
  session.enable_profiling = !options_.profile.empty();
  return session;
}

void TrainingRun::SetUpRun() {
  const bool resume = options_.resume;
  std::optional<int64_t> samples = data_->row_count();
  if (resume && run_.samples != *samples) {
    Throw(ErrorCode::kInvalidArgument,
          "--resume: the run was started with {} rows, the files have {}",
          run_.samples, *samples);
  }
  run_.samples = *samples;
  if (resume) {
    KeepOrSet("--batch-size", resume, options_.batch_size, &run_.batch_size);
  } else {
    run_.batch_size = ResolveBatchSize(*data_, options_.batch_size);
  }
  KeepOrSet("--accumulate", resume, options_.accumulate, &run_.accumulate);
  KeepOrSet("--shuffle", resume, options_.shuffle, &run_.shuffle);
  if (options_.epochs) run_.epochs = *options_.epochs;
  if (options_.steps) run_.steps = *options_.steps;
  if (options_.epochs || options_.steps) {
    (options_.epochs ? run_.steps : run_.epochs) = 0;
  }
  if (!resume) run_.first_step = optimizer_->step_count();
  first_step_ = run_.step;

  const bool drop = data_->fixed_batch_size() > 0;
  order_ = std::make_unique<BatchOrder>(
      BatchOrder::Options{.row_count = run_.samples,
                          .batch_size = run_.batch_size,
                          .shuffle = run_.shuffle != 0,
                          .seed = static_cast<uint64_t>(run_.seed),
                          .last_batch = drop ? BatchOrder::LastBatch::kDrop
                                             : BatchOrder::LastBatch::kKeep});
  // More batches than an epoch has are one step all the same.
  accumulate_ = std::min(run_.accumulate, order_->batch_count());
  total_steps_ = run_.steps > 0 ? run_.steps
                                : SaturatedProduct(run_.epochs, StepsOfEpoch());
  if (resume &&
      (run_.batch >= order_->batch_count() || run_.batch % accumulate_ != 0)) {
    Throw(ErrorCode::kInvalidFile,
          "--resume: {} is damaged: batch {} of {} cannot be where it stands",
          PathText(output_ / kCheckpointName), run_.batch,
          order_->batch_count());
  }
}

void TrainingRun::SetUpRate() {
  // What a schedule made of the rate ends with it: a run that is not another
  // one's continuation starts at the initial rate.
  bool restart = !options_.resume;
  if (options_.schedule) {
    restart = restart || run_.schedule != *options_.schedule;
    run_.schedule = *options_.schedule;
    if (run_.schedule != kLinear) run_.warmup = 0;
  }
  if (options_.warmup) run_.warmup = *options_.warmup;
  if (run_.warmup > 0 && run_.schedule != kLinear) {
    ThrowUsage("--warmup needs --schedule linear");
  }
  if (options_.learning_rate) {
    optimizer_->SetInitialLearningRate(*options_.learning_rate);
  } else if (restart) {
    optimizer_->SetLearningRate(optimizer_->GetInitialLearningRate());
  }
  if (run_.schedule == kLinear) {
    scheduler_ = std::make_unique<LinearLRScheduler>(
        optimizer_, run_.warmup, total_steps_, run_.first_step);
  }
}

void TrainingRun::Announce() {
  const int64_t rest = run_.samples % run_.batch_size;
  progress_.Print(fmt::format(
      "{} samples, batch size {}, {} steps per epoch, {} parameters",
      run_.samples, run_.batch_size, StepsOfEpoch(),
      module_->GetParametersSize(/*trainable_only=*/true)));
  if (rest != 0 && data_->fixed_batch_size() > 0) {
    progress_.Print(fmt::format(
        "note: the model fixes the batch size, so that {} samples are left "
        "out of each epoch",
        rest));
  }
  if (options_.resume && run_.step < total_steps_) {
    progress_.Print(
        fmt::format("going on after step {} of {}", run_.step, total_steps_));
  }
  metrics_->Write({{"event", options_.resume ? "resume" : "start"},
                   {"samples", run_.samples},
                   {"batch_size", run_.batch_size},
                   {"accumulate", accumulate_},
                   {"seed", run_.seed},
                   {"shuffle", run_.shuffle != 0},
                   {"schedule", run_.schedule},
                   {"warmup", run_.warmup},
                   {"step", run_.step},
                   {"total_steps", total_steps_}});
}

void TrainingRun::TrainBatch() {
  const std::span<const int64_t> rows = order_->Rows(run_.epoch, run_.batch);
  data_->Gather(rows, &batch_);
  inputs_.assign(batch_.begin(), batch_.end());
  try {
    module_->TrainStep(inputs_, &outputs_);
  } catch (const Error& error) {
    Throw(error.code(), "epoch {}, batch {}: {}; {}", run_.epoch + 1,
          run_.batch + 1, error.what(), KeptState());
  }
  const double loss = LossValue(outputs_.at(0));
  const int64_t count = static_cast<int64_t>(rows.size());
  run_.loss_sum += loss * static_cast<double>(count);
  run_.epoch_rows += count;
  epoch_rows_ += count;
  rows_ += count;
  ++run_.batch;
  ++batches_;
  ++accumulated_;
  if (metrics_->enabled()) {
    metrics_->Write({{"event", "batch"},
                     {"epoch", run_.epoch + 1},
                     {"batch", run_.batch},
                     {"step", run_.step + 1},
                     {"samples", count},
                     {"loss", loss},
                     {"lr", optimizer_->GetLearningRate()}});
  }
}

std::string TrainingRun::KeptState() const {
  if (!checkpoint_written_ && !options_.resume) {
    return "no checkpoint was written";
  }
  return fmt::format("{} holds the last good state",
                     PathText(output_ / kCheckpointName));
}

void TrainingRun::OptimizerStep() {
  optimizer_->Step();
  if (scheduler_) scheduler_->Step();
  module_->LazyResetGrad();
  accumulated_ = 0;
  ++run_.step;
}

void TrainingRun::ShowProgress() {
  // Batches to go: exact for --epochs, near enough for --steps.
  const int64_t left = SaturatedProduct(total_steps_ - run_.step, accumulate_);
  progress_.Update(
      {.epoch = run_.epoch + 1,
       .epochs = run_.epochs,
       .batch = run_.batch,
       .batches = order_->batch_count(),
       .done = batches_,
       .total = SaturatedSum(batches_, left),
       .samples = rows_,
       .loss = run_.loss_sum / static_cast<double>(run_.epoch_rows),
       .rate = optimizer_->GetLearningRate()});
}

Json TrainingRun::Validate() {
  Json values = Json::object();
  const EvaluationOptions options = {
      .batch_size = validation_->fixed_batch_size() > 0
                        ? ResolveBatchSize(*validation_, std::nullopt)
                        : run_.batch_size,
      .keep_arrays = false,
      .labels = LabelsOf(roles_, *validation_)};
  const Evaluation evaluation = Evaluate(
      *validation_, module_->EvalOutputNames(),
      [&](std::span<const Tensor> inputs, std::vector<OwnedTensor>* outputs) {
        module_->EvalStep(inputs, outputs);
      },
      options);
  for (const auto& [name, value] : evaluation.means) values[name] = value;
  if (evaluation.accuracy) values["accuracy"] = evaluation.accuracy->value();
  return values;
}

void TrainingRun::AddValidation(std::string* line, Json* event) {
  Json values;
  try {
    values = Validate();
  } catch (const Error& error) {
    Throw(error.code(), "--validation after epoch {}: {}; {}", run_.epoch,
          error.what(), KeptState());
  }
  for (const auto& [name, value] : values.items()) {
    *line += fmt::format("  validation {} {:.6g}", name, value.get<double>());
  }
  (*event)["validation"] = values;
}

void TrainingRun::EndEpoch() {
  const double seconds = progress_.seconds() - epoch_start_;
  const double loss = run_.loss_sum / static_cast<double>(run_.epoch_rows);
  const double speed = static_cast<double>(epoch_rows_) / seconds;
  ++run_.epoch;
  run_.batch = 0;
  run_.loss_sum = 0;
  run_.epoch_rows = 0;
  std::string line = fmt::format(
      "epoch {}{}  loss {:.6g}  lr {:.4g}  {:.0f} samples/s  {:.1f} s",
      run_.epoch, run_.epochs > 0 ? fmt::format("/{}", run_.epochs) : "", loss,
      optimizer_->GetLearningRate(), speed, seconds);
  Json event = {{"event", "epoch"},
                {"epoch", run_.epoch},
                {"step", run_.step},
                {"loss", loss},
                {"lr", optimizer_->GetLearningRate()},
                {"samples_per_second", speed},
                {"seconds", seconds}};
  Save();  // first: an epoch's work is not lost to what follows
  if (validation_) AddValidation(&line, &event);
  progress_.Print(line);
  metrics_->Write(event);
  epoch_rows_ = 0;
  epoch_start_ = progress_.seconds();
}

void TrainingRun::Save() {
  try {
    CheckFinite(state_.store());
  } catch (const Error& error) {
    Throw(error.code(), "after step {}: {}; {}", run_.step, error.what(),
          KeptState());
  }
  run_.Save(&state_);
  state_.Save(output_ / kCheckpointName, /*include_optimizer_state=*/true);
  checkpoint_written_ = true;
}

// The model is written whether there was something to train or not: the
// process that trained the last step may have ended before it came to that.
void TrainingRun::Finish() {
  const std::string written =
      batches_ > 0 ? PathText(output_ / kCheckpointName) : "";
  if (batches_ == 0) {
    progress_.Print(fmt::format("nothing was left to train: step {} of {}",
                                run_.step, total_steps_));
  }
  if (!artifacts_.eval || roles_.predictions.empty()) {
    if (!written.empty()) progress_.Print("wrote " + written);
    if (!artifacts_.eval) return;
    progress_.Print(
        "note: no model.onnx, since the eval model does not show which values "
        "are its predictions; strop export --outputs names them");
    return;
  }
  const std::filesystem::path model = output_ / kModelName;
  module_->ExportModelForInferencing(model, roles_.predictions);
  progress_.Print(fmt::format("wrote {}{}{}", written,
                              written.empty() ? "" : " and ", PathText(model)));
}

int TrainingRun::Run() {
  InterruptGuard interrupt;
  Announce();
  progress_.Restart();
  while (run_.step < total_steps_) {
    TrainBatch();
    // Gradients are not kept in a checkpoint: an epoch ends with a step, and
    // a run is broken off right after one only.
    const bool epoch_ends = run_.batch == order_->batch_count();
    const bool steps = accumulated_ == accumulate_ || epoch_ends;
    if (steps) OptimizerStep();
    if (epoch_ends) {
      EndEpoch();
    } else {
      ShowProgress();
    }
    if (steps && interrupt.requested()) break;
  }
  if (batches_ > 0 && run_.batch != 0) Save();
  const bool complete = run_.step >= total_steps_;
  metrics_->Write({{"event", complete ? "end" : "interrupted"},
                   {"step", run_.step},
                   {"seconds", progress_.seconds()}});
  if (complete) Finish();
  if (!options_.profile.empty()) module_->WriteProfile(options_.profile);
  if (complete) return 0;
  progress_.Print(fmt::format(
      "stopped after step {} of {}; wrote {}; --resume goes on from there",
      run_.step, total_steps_, PathText(output_ / kCheckpointName)));
  return interrupt.exit_code();
}

}  // namespace

int Train(const TrainOptions& options) { return TrainingRun(options).Run(); }

}  // namespace strop
