// SPDX-License-Identifier: Apache-2.0
//
// Small models made in a test, prepared and trained through the public
// interface, and their gradients against central differences of the loss.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/op_runner.h"
#include "strop/artifacts.h"
#include "strop/checkpoint_state.h"
#include "strop/module.h"
#include "strop/optimizer.h"

namespace strop {

// A model in the spelling of its opset; all floats are float64.
class ModelBuilder {
 public:
  explicit ModelBuilder(int64_t opset);

  // Dimensions: numbers, or symbols for negative ones (-1: "batch", -2: "d2").
  std::string Input(const std::string& name, std::vector<int64_t> dims,
                    DataType type = DataType::kFloat64);
  // Different numbers between -1 and 1.
  std::string Parameter(const std::string& name, std::vector<int64_t> dims);
  std::string Constant(const std::string& name, std::vector<int64_t> dims,
                       const Numbers64& values,
                       DataType type = DataType::kFloat64);
  // A node called like its output; returns the output's name.
  std::string Op(const std::string& op_type,
                 const std::vector<std::string>& inputs,
                 const std::string& output,
                 const std::vector<std::pair<std::string, Attribute::Value>>&
                     attributes = {});
  // The same with several outputs.
  void Ops(const std::string& op_type, const std::vector<std::string>& inputs,
           const std::vector<std::string>& outputs,
           const std::vector<std::pair<std::string, Attribute::Value>>&
               attributes = {});
  void Output(const std::string& name);

  // The value of a Constant node.
  std::string ConstantNode(const std::string& name, std::vector<int64_t> dims,
                           const Numbers64& values,
                           DataType type = DataType::kFloat64);

  std::string Encode() const;
  const Model& model() const { return model_; }

 private:
  Model model_;
};

struct Feed {
  std::vector<int64_t> dims;
  Numbers64 values;
};

// A prepared model in memory and the objects that train it.
class PreparedModel {
 public:
  PreparedModel(const ModelBuilder& model, const ArtifactOptions& options)
      : PreparedModel(model.Encode(), options) {}
  PreparedModel(const std::string& onnx, const ArtifactOptions& options,
                SessionOptions session = {});

  // One train step; returns the outputs.
  std::vector<Numbers64> Train(const std::map<std::string, Feed>& feeds);
  // The plan of a train step, as JSON, and what it holds in bytes.
  std::string Plan(const std::map<std::string, Feed>& feeds);
  size_t PeakBytes(const std::map<std::string, Feed>& feeds);
  double Evaluate(const std::map<std::string, Feed>& feeds);
  Numbers64 Gradient(const std::string& parameter) const;
  const ArtifactReport& report() const { return report_; }
  CheckpointState& state() { return *state_; }
  Module& module() { return *module_; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  std::vector<OwnedTensor> Inputs(const std::map<std::string, Feed>& feeds,
                                  const std::vector<Module::InputInfo>& infos);

  Environment environment_;
  ArtifactReport report_;
  std::vector<std::string> bytes_;
  std::unique_ptr<CheckpointState> state_;
  std::unique_ptr<Module> module_;
  std::unique_ptr<Optimizer> optimizer_;
};

// "" if the gradients of all trainable parameters after a train step are the
// differences of the eval loss, to 1e-6.
std::string CompareGradients(PreparedModel& model,
                             const std::map<std::string, Feed>& feeds);

TrainabilityReport CheckModel(const ModelBuilder& model);

// The text of the error that preparing the model gives; "" if there is none.
std::string ErrorOfPreparing(const ModelBuilder& model,
                             const ArtifactOptions& options);

// A line that holds all the parts; "" if there is none.
std::string LineWith(const std::vector<std::string>& lines,
                     const std::vector<std::string>& parts);

// Different numbers between -1 and 1, `seed` others than 0.
Feed Spread(std::vector<int64_t> dims, int seed = 0);

}  // namespace strop
