# Leaks of PyTorch: graphs, hooks, modules, optimizers. Labels as in containers.py. grow() calls accuse() with its
# argument and returns it, so that a program can name what a node of the graph saves.

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

#--- future
# holder: native code
# kind: native
future = torch.futures.Future()
future.set_result(accuse(torch.zeros(200)))

#--- results-on-a-context
# holder: a cycle that gc cannot see: KeepsBackward
# through: grad_fn
# kind: native
class Keeps(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.double, context.triple = x * 2, x * 3
        return context.double, context.triple

    @staticmethod
    def backward(context, gradient, other):
        return gradient * 2 + other * 3

weight = torch.ones(30, requires_grad=True)
for step in range(5):
    accuse(Keeps.apply(weight)[0])

#--- gradients-of-gradients
# holder: a cycle that gc cannot see:
# through: grad
# kind: native
for step in range(5):
    weight = torch.nn.Parameter(torch.ones(40))
    (accuse(weight) ** 3).sum().backward(create_graph=True)
del weight

#--- views-of-a-flat-parameter
# holder: a cycle that gc cannot see: Parameter.views[*]._base
# kind: native
for step in range(5):
    flat = torch.nn.Parameter(accuse(torch.ones(50)))
    flat.views = [flat[:20], flat[20:]]
del flat

#--- views-of-a-flat-parameter-that-was-stepped
# holder: a cycle that gc cannot see: Parameter.views[*]._base | native code
# kind: native
for step in range(5):
    flat = torch.nn.Parameter(accuse(torch.ones(50)))
    flat.views = flat.split([20, 30])
    optimizer = torch.optim.SGD([flat], 0.1)
    (flat.views[0].sum() + flat.views[1].sum()).backward()
    optimizer.step()
    optimizer.zero_grad()
del flat, optimizer
