// SPDX-License-Identifier: Apache-2.0
//
// What the maker of artifacts is asked for.
#include <nanobind/stl/optional.h>

#include "binding.h"
#include "strop/artifacts.h"

namespace strop::python {
namespace {

std::shared_ptr<const OwnedTensor> OwnedCopy(nb::handle array,
                                             const char* name) {
  if (array.is_none()) return nullptr;
  return std::make_shared<const OwnedTensor>(ArrayIn(array, name).tensor());
}

void BindLoss(nb::module_& module) {
  nb::enum_<LossKind>(module, "LossKind", "Losses by name.")
      .value("MSE", LossKind::kMeanSquaredError)
      .value("CROSS_ENTROPY", LossKind::kCrossEntropy)
      .value("BCE_WITH_LOGITS", LossKind::kBinaryCrossEntropyWithLogits)
      .value("L1", LossKind::kL1);
  nb::enum_<Reduction>(module, "Reduction", "Over the elements of a loss.")
      .value("MEAN", Reduction::kMean)
      .value("SUM", Reduction::kSum)
      .value("NONE", Reduction::kNone);
  nb::class_<Loss>(module, "Loss", "One loss; see include/strop/artifacts.h.")
      .def(nb::init<>())
      .def_rw("kind", &Loss::kind)
      .def_rw("input", &Loss::input)
      .def_rw("target", &Loss::target)
      .def_rw("weight", &Loss::weight)
      .def_rw("reduction", &Loss::reduction)
      .def_rw("ignore_index", &Loss::ignore_index)
      .def("set_weights",
           [](Loss& loss, nb::handle array) {
             loss.weights = OwnedCopy(array, "weights");
           })
      .def("set_positive_weights", [](Loss& loss, nb::handle array) {
        loss.positive_weights = OwnedCopy(array, "pos_weight");
      });
}

void BindOptions(nb::module_& module) {
  nb::enum_<OptimizerKind>(module, "OptimizerKind", "Optimizers by name.")
      .value("NONE", OptimizerKind::kNone)
      .value("ADAMW", OptimizerKind::kAdamW)
      .value("SGD", OptimizerKind::kSgd);
  nb::class_<AdamWOptions>(
      module, "AdamWOptions",
      "Attributes of AdamW; see include/strop/artifacts.h.")
      .def(nb::init<>())
      .def_rw("beta1", &AdamWOptions::beta1)
      .def_rw("beta2", &AdamWOptions::beta2)
      .def_rw("epsilon", &AdamWOptions::epsilon)
      .def_rw("weight_decay", &AdamWOptions::weight_decay)
      .def_rw("bias_correction", &AdamWOptions::bias_correction);
  nb::class_<ArtifactOptions>(
      module, "ArtifactOptions",
      "What the maker is asked for; see include/strop/artifacts.h.")
      .def(nb::init<>())
      .def_rw("requires_grad", &ArtifactOptions::requires_grad)
      .def_rw("frozen_params", &ArtifactOptions::frozen_params)
      .def_rw("only_named", &ArtifactOptions::only_named)
      .def_rw("strict_names", &ArtifactOptions::strict_names)
      .def_rw("losses", &ArtifactOptions::losses)
      .def_rw("additional_output_names",
              &ArtifactOptions::additional_output_names)
      .def_rw("keep_outputs", &ArtifactOptions::keep_outputs)
      .def_rw("optimizer", &ArtifactOptions::optimizer)
      .def_rw("adamw", &ArtifactOptions::adamw)
      .def_rw("clip_grad_norm", &ArtifactOptions::clip_grad_norm)
      .def_rw("nominal_checkpoint", &ArtifactOptions::nominal_checkpoint)
      .def_rw("opset", &ArtifactOptions::opset)
      .def_rw("prefix", &ArtifactOptions::prefix)
      .def_rw("names_used", &ArtifactOptions::names_used);
}

}  // namespace

void BindArtifactOptions(nb::module_& module) {
  BindLoss(module);
  BindOptions(module);
}

}  // namespace strop::python
