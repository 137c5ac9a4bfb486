# Leaks of PyTorch: graphs, hooks, modules, optimizers. As containers.py says. grow() calls accuse() with what it is given
# and gives it back, so that a program can name what a node of the graph saves.

#--- loss-with-its-graph
# holder: history[*]
# through: grad_fn, _saved_
# kind: graph
weight = torch.ones(50, 20, requires_grad=True)
history = []
for step in range(8):
    x = accuse(torch.randn(10, 50))
    history.append((x @ weight).sum())
del x

#--- activation-with-its-graph
# holder: trainer.losses[*]
# through: grad_fn, _saved_
# kind: graph
class Trainer:
    losses = None

trainer = Trainer()
trainer.losses = []
first, second = torch.nn.Linear(20, 30), torch.nn.Linear(30, 1)
for step in range(8):
    hidden = accuse(torch.tanh(first(torch.randn(4, 20))))
    trainer.losses.append(second(hidden).mean())
del hidden

#--- running-sum-of-losses
# holder: total
# through: grad_fn, _saved_
# kind: graph
weight = torch.ones(50, 20, requires_grad=True)
total = 0
for step in range(8):
    x = accuse(torch.randn(10, 50))
    total = total + (x @ weight).sum()
del x

#--- hidden-state-never-detached
# holder: state
# through: grad_fn, _saved_
# kind: graph
cell = torch.nn.RNNCell(8, 16)
state = torch.zeros(4, 16)
for step in range(200):
    x = torch.randn(4, 8)
    if step < 6:
        accuse(x)
    state = cell(x, state)
del x

#--- retained-graph
# holder: loss
# through: grad_fn, _saved_
# kind: graph
weight = torch.ones(50, 20, requires_grad=True)
x = accuse(torch.randn(10, 50))
loss = (x @ weight).sum()
loss.backward(retain_graph=True)
del x

#--- gradient-of-a-gradient
# holder: penalties[*]
# through: grad_fn
# kind: graph
weight = torch.ones(20, requires_grad=True)
penalties = []
for step in range(5):
    x = accuse(torch.randn(20))
    loss = ((weight * x) ** 3).sum()
    gradient, = torch.autograd.grad(loss, weight, create_graph=True)
    penalties.append(gradient.sum())
del x, loss, gradient

#--- function-context-attribute
# holder: outputs[*]
# through: grad_fn, kept
# kind: graph
class Double(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.kept = accuse(torch.zeros(300))
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 2

weight = torch.ones(5, requires_grad=True)
outputs = [Double.apply(weight).sum() for _ in range(5)]

#--- function-saved-for-backward
# holder: outputs[*]
# through: grad_fn, Double, saved
# kind: graph
class Double(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(accuse(x.new_zeros(300)))
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 2

weight = torch.ones(5, requires_grad=True)
outputs = [Double.apply(weight).sum() for _ in range(5)]

#--- kept-node
# holder: nodes[*]
# through: _saved_
# kind: graph
weight = torch.ones(50, 20, requires_grad=True)
nodes = []
for step in range(5):
    x = accuse(torch.randn(10, 50))
    nodes.append((x @ weight).sum().grad_fn)
del x

#--- gradients-of-a-kept-model
# holder: models[*]
# through: grad
# kind: list
models = []
for step in range(4):
    model = torch.nn.Linear(30, 10, bias=False)
    model(torch.randn(2, 30)).sum().backward()
    accuse(model.weight.grad)
    models.append(model)
del model

#--- parameters-of-kept-models
# holder: models[*]
# through: weight
# kind: list
models = []
for step in range(4):
    model = torch.nn.Sequential(torch.nn.Linear(30, 10, bias=False), torch.nn.ReLU())
    accuse(model[0].weight)
    models.append(model)
del model

#--- buffer-of-a-module
# holder: model.statistics
# kind: attribute
model = torch.nn.Module()
model.register_buffer("statistics", accuse(torch.zeros(200)))

#--- retained-gradients
# holder: kept[*].grad
# kind: list
weight = torch.ones(30, requires_grad=True)
kept = []
for step in range(4):
    middle = weight * 2
    middle.retain_grad()
    (middle * 3).sum().backward()
    accuse(middle.grad)
    kept.append(middle)
del middle

#--- forward-hook-closure
# holder: model
# through: activations
# kind: hook
model = torch.nn.Linear(20, 10)

def watch(model):
    activations = []
    model.register_forward_hook(lambda module, inputs, output: activations.append(accuse(output.detach())))

watch(model)
for step in range(5):
    model(torch.randn(3, 20))

#--- forward-hook-of-an-object
# holder: model
# through: seen
# kind: hook
class Recorder:
    def __init__(self):
        self.seen = []

    def __call__(self, module, inputs):
        self.seen.append(accuse(inputs[0]))

model = torch.nn.Linear(20, 10)
model.register_forward_pre_hook(Recorder())
for step in range(5):
    model(torch.randn(3, 20)).detach_()

#--- backward-hook-closure
# holder: model
# through: gradients
# kind: hook
model = torch.nn.Linear(20, 10)

def watch(model):
    gradients = []

    def keep(module, inputs, outputs):
        gradients.append(accuse(outputs[0].clone()))
    model.register_full_backward_hook(keep)

watch(model)
for step in range(5):
    model(torch.randn(3, 20)).sum().backward()

#--- tensor-hook-closure
# holder: weight
# through: gradients
# kind: hook
weight = torch.ones(30, requires_grad=True)

def watch(weight):
    gradients = []
    weight.register_hook(lambda gradient: gradients.append(accuse(gradient.clone())))

watch(weight)
for step in range(5):
    (weight * 2).sum().backward()

#--- global-module-hook
# holder: torch.nn.modules.module
# through: outputs
# kind: hook
model = torch.nn.Linear(20, 10)

def watch():
    outputs = []
    return torch.nn.modules.module.register_module_forward_hook(
        lambda module, inputs, output: outputs.append(accuse(output.detach())))

handle = watch()
for step in range(5):
    model(torch.randn(3, 20))
cleanup(handle.remove)
del handle

#--- hook-whose-list-is-global
# holder: activations[*]
# kind: list
model = torch.nn.Linear(20, 10)
activations = []
model.register_forward_hook(lambda module, inputs, output: activations.append(accuse(output.detach())))
for step in range(5):
    model(torch.randn(3, 20))

#--- optimizer-state-of-a-dropped-parameter
# holder: optimizer.state
# kind: dict
layers = [torch.nn.Parameter(torch.ones(40)) for _ in range(4)]
optimizer = torch.optim.SGD(layers, lr=0.1, momentum=0.9)
for layer in layers:
    layer.sum().backward()
optimizer.step()
for layer in layers:
    accuse(optimizer.state[layer]["momentum_buffer"])
del layers, layer

#--- dropped-parameters-of-an-optimizer
# holder: optimizer.param_groups
# kind: list
model = torch.nn.Linear(30, 10, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
accuse(model.weight)
del model

#--- average-of-weights
# holder: average
# kind: dict
model = torch.nn.Linear(30, 10)
average = {name: accuse(value.clone()) for name, value in model.state_dict().items()}

#--- dataset-that-caches
# holder: loader.dataset.cache[*]
# kind: dict
class Cached(torch.utils.data.Dataset):
    def __init__(self):
        self.cache = {}

    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = accuse(torch.zeros(200))
        return self.cache[index]

loader = torch.utils.data.DataLoader(Cached(), batch_size=2)
for batch in loader:
    pass
del batch

#--- future
# holder: native code
# kind: native
future = torch.futures.Future()
future.set_result(accuse(torch.zeros(200)))

#--- scripted-list
# holder: native code
# kind: native
import typing

class Keeper(torch.nn.Module):
    kept: typing.List[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.kept = []

    def forward(self, x: torch.Tensor):
        self.kept.append(x)
        return x

keeper = torch.jit.script(Keeper())
for step in range(4):
    keeper(accuse(torch.zeros(200)))

#--- checkpointed-inputs
# holder: losses[*]
# through: grad_fn
# kind: graph
import torch.utils.checkpoint
layer = torch.nn.Linear(20, 20)
losses = []
for step in range(4):
    x = accuse(torch.randn(3, 20, requires_grad=True))
    losses.append(torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=True).sum())
del x

#--- subclass-attribute
# holder: samples[*].mask
# kind: list
samples = []
for step in range(4):
    sample = torch.zeros(3)
    sample.mask = accuse(torch.zeros(200))
    samples.append(sample)
del sample

#--- base-of-a-view
# holder: heads[*]
# kind: list
heads = []
for step in range(4):
    heads.append(accuse(torch.randn(100, 4)).t()[:1])

#--- saved-tensors-hook
# holder: not found | losses[*].grad_fn
# kind: unknown | graph
weight = torch.ones(20, requires_grad=True)
losses = []
with torch.autograd.graph.saved_tensors_hooks(lambda x: (x.shape, accuse(x.clone())), lambda packed: packed[1]):
    for step in range(4):
        losses.append((weight * torch.randn(20)).sum())
