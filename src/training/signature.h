// SPDX-License-Identifier: Apache-2.0
//
// Which part each input and output of a training or eval graph plays.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/parameter_store.h"
#include "graph/graph.h"

namespace strop {

enum class InputRole { kUser, kParameter, kGradient, kResetFlag };

struct SignatureInput {
  InputRole role = InputRole::kUser;
  std::string parameter;  // kParameter and kGradient: its name
};

struct Signature {
  std::vector<SignatureInput> inputs;  // in the order of the graph's inputs
  std::vector<size_t> user_inputs;     // positions of role kUser
};

inline constexpr std::string_view kResetFlagName = "lazy_reset_grad";

// `name` without the suffix of a gradient buffer or of its accumulator's
// flag; empty if it has none. It is one only if the rest names a parameter.
std::string_view GradientOwnerName(std::string_view name);

// Sorts the inputs of a training graph; the first that fits holds: the name
// of a parameter, the reset flag, a parameter's name with a gradient suffix,
// a user input. Takes the gradient accumulators' flags out of the outputs,
// and inputs that have a default value out of the inputs. Throws
// kInvalidGraph where graph and state do not fit together: a trainable
// parameter that the graph does not use or has no gradient buffer for, other
// types or shapes than the state's.
Signature ReadTrainingSignature(Graph& graph, ParameterStore& store);

// The same for an eval graph, which has parameters and user inputs only.
Signature ReadEvalSignature(Graph& graph, ParameterStore& store);

// Type and shape of a parameter as the graph declares it; type kUndefined if
// it leaves a dimension open.
TensorInfo DeclaredInfo(const Graph& graph, ValueId input);

}  // namespace strop
