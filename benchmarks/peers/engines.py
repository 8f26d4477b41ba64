# SPDX-License-Identifier: Apache-2.0
"""One class for each engine, with all that a training run needs.

An engine imports its package when it is made, loads with `load`, makes one
step with `step` (forward, loss, backward, AdamW, reset of gradients; returns
the loss), and takes another learning rate than 1e-3 with `set_rate`. AdamW is
PyTorch's: epsilon 1e-8, weight decay 1e-2.
"""


class Strop:
    artifacts = "strop"

    def __init__(self, threads):
        import strop

        self.api, self.version = strop, strop.__version__
        self.options = strop.SessionOptions()
        self.options.intra_op_num_threads = threads

    def load(self, folder, case, batch):
        files = folder / self.artifacts
        self.state = self.api.CheckpointState.load_checkpoint(
            str(files / "checkpoint")
        )
        self.module = self.api.Module(
            str(files / "training_model.onnx"),
            self.state,
            session_options=self.options,
        )
        self.optimizer = self.api.Optimizer(
            str(files / "optimizer_model.onnx"), self.module
        )
        self.module.train()
        self.batch = batch

    def step(self):
        loss = self.module(*self.batch)
        self.optimizer.step()
        self.module.lazy_reset_grad()
        return float(loss)

    def set_rate(self, rate):
        self.optimizer.set_learning_rate(rate)


class Ort(Strop):
    """ONNX Runtime has the same interface."""

    artifacts = "ort"

    def __init__(self, threads):
        import onnxruntime
        from onnxruntime.training import api

        self.api, self.version = api, onnxruntime.__version__
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1


class Torch:
    def __init__(self, threads, channels_last=False, compile=False):
        import networks  # noqa: F401  the classes that network.pt names
        import torch
        import torch._dynamo  # noqa: F401  else the first step imports it

        torch.set_num_threads(threads)
        self.torch, self.version = torch, torch.__version__
        self.channels_last, self.compile = channels_last, compile

    def load(self, folder, case, batch):
        torch = self.torch
        x, y = (torch.from_numpy(values) for values in batch)
        network = torch.load(folder / "network.pt", weights_only=False)
        if self.channels_last:
            network = network.to(memory_format=torch.channels_last)
            if x.dim() == 4:
                x = x.to(memory_format=torch.channels_last)
        loss = getattr(torch.nn, case.loss)()
        self.forward = lambda: loss(network(x), y)
        if self.compile:
            self.forward = torch.compile(self.forward)
        trained = [p for p in network.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            trained, lr=1e-3, eps=1e-8, weight_decay=1e-2, fused=True
        )

    def step(self):
        loss = self.forward()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def set_rate(self, rate):
        for group in self.optimizer.param_groups:
            group["lr"] = rate


def make_engine(name, threads):
    """`name` is "strop", "ort" or "torch"; to torch may be added
    "+channels_last" and "+compile", to all "+keep_memory", which is set in
    the environment of the process."""
    base, *variants = name.split("+")
    options = {v: True for v in variants if v != "keep_memory"}
    return {"strop": Strop, "ort": Ort, "torch": Torch}[base](
        threads, **options
    )
