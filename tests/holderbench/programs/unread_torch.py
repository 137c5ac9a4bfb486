# Leaks of PyTorch: graphs, modules, data, tools. Written later by another person in the same way as unread.py: labels
# before the first run, without reading the code that finds holders. Labels as in containers.py. If a label has several
# answers (A | B), a person would call each of them right.

#--- jacobians-that-can-be-differentiated
# holder: jacobians[*]
# through: grad_fn
# kind: graph
jacobians = []
scale = torch.full((6,), 2.0, requires_grad=True)
for step in range(4):
    point = accuse(torch.randn(6))
    jacobians.append(torch.autograd.functional.jacobian(lambda x: (scale * x).pow(3), point, create_graph=True))
del point

#--- checkpointed-without-reentry
# holder: losses[*]
# through: grad_fn
# kind: graph
import torch.utils.checkpoint
block = torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.GELU())
losses = []
for step in range(5):
    x = accuse(torch.randn(3, 20))
    losses.append(torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum())
del x

#--- modules-of-torchscript
# holder: loaded
# through: weight
# kind: list
loaded = []
for size in range(10, 15):
    script = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(size, 10)))
    accuse(script[0].weight)
    loaded.append(script._c)
del script

#--- main-gradients-of-parameters
# holder: model
# through: main_grad
# kind: attribute | list
model = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.Linear(10, 10), torch.nn.Linear(10, 4))
for parameter in model.parameters():
    parameter.main_grad = accuse(torch.zeros(parameter.shape))
del parameter

#--- buffer-for-each-step
# holder: model
# through: mask
# kind: attribute | dict | list
class Masks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, size):
        self.register_buffer(f"mask_{self.steps}", accuse(torch.zeros(size, size)))
        self.steps += 1

model = Masks()
for size in range(10, 20):
    model(size)

#--- data-wrapped-each-round
# holder: train
# through: datasets, tensors
# kind: list
from torch.utils.data import ConcatDataset, TensorDataset
train = TensorDataset(torch.zeros(4, 2))
for round_ in range(6):
    train = ConcatDataset([train, TensorDataset(accuse(torch.zeros(4, 20)))])
