# Leaks in the style of public issues, which each name says; labels from what the threads found, written before a run. As
# containers.py says; "a | b" where both are right.

#--- pytorch-25340-context-keeps-its-output
# holder: a cycle | native code
# kind: unknown | native
import gc
gc.disable()

class Copy(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.x = accuse(torch.ones(300))
        y = x.clone()
        context.y = y
        return y

    @staticmethod
    def backward(context, gradient):
        return gradient

x = torch.ones(300, requires_grad=True)

def step():
    Copy.apply(x)

for _ in range(4):
    step()

#--- gpytorch-2734-hook-of-a-graph
# holder: predictions[*]
# through: grad_fn
# kind: graph | hook
import functools

class Strategy:
    def __init__(self, weight):
        self.memo = accuse(torch.zeros(400))

    def clear(self, *unused):
        pass

predictions = []
weight = torch.ones(10, requires_grad=True)

def predict():
    strategy = Strategy(weight)
    prediction = (weight * 2).sum()
    prediction.grad_fn.register_hook(functools.partial(Strategy.clear, strategy))
    predictions.append(prediction)

for _ in range(5):
    predict()

#--- torchtune-904-cache-keyed-by-model
# holder: get_adapter_params
# kind: cache
import functools

@functools.lru_cache()
def get_adapter_params(model):
    return {name: value for name, value in model.named_parameters() if "bias" in name}

def fold():
    model = torch.nn.Linear(30, 40)
    accuse(model.weight)
    get_adapter_params(model)

for _ in range(4):
    fold()

#--- transformers-45412-cache-of-a-method-holds-self
# holder: SinePositions.forward
# kind: cache
import functools

class SinePositions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(200))
        accuse(self.table)

    @functools.lru_cache(maxsize=32)
    def forward(self, size):
        return torch.zeros(1)

def use():
    SinePositions()(3)

for _ in range(4):
    use()

#--- pinot-23-states-of-all-epochs
# holder: experiment.states[*]
# kind: dict
class Experiment:
    def __init__(self):
        self.net, self.states = torch.nn.Linear(20, 20), {}

    def train(self, epochs):
        for epoch in range(epochs):
            self.states[epoch] = {name: accuse(value.detach().clone()) for name, value in self.net.state_dict().items()}

experiment = Experiment()
experiment.train(4)

#--- scheduler-after-its-optimizer
# holder: scheduler.optimizer.state[*]['exp_avg']
# kind: dict
def build():
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 16)).sum().backward()
    optimizer.step()
    for state in optimizer.state.values():
        accuse(state["exp_avg"])
    return torch.optim.lr_scheduler.StepLR(optimizer, 10)

scheduler = build()

#--- registry-of-a-class
# holder: Layer.registry[*].buffer
# kind: dict
class Layer:
    registry = {}

    def __init__(self, name):
        self.buffer = accuse(torch.zeros(64))
        Layer.registry[name] = self

for name in ("a", "b", "c", "d"):
    Layer(name)

#--- tasks-that-wait
# holder: tasks[*]
# through: serve(), batch
# kind: local | list
import asyncio

async def serve():
    batch = accuse(torch.zeros(50))
    await asyncio.sleep(1000)

loop = asyncio.new_event_loop()
tasks = [loop.create_task(serve()) for _ in range(4)]
loop.run_until_complete(asyncio.sleep(0))

def end():
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()

cleanup(end)

#--- exit-stack-with-a-callback
# holder: stack._exit_callbacks[*]
# through: batch
# kind: closure | list
import contextlib
stack = contextlib.ExitStack()

def open_one():
    batch = accuse(torch.zeros(70))
    stack.callback(lambda: batch)

for _ in range(4):
    open_one()

#--- signal-handler
# holder: native code | signal
# kind: native | closure
import signal

def install():
    last = accuse(torch.zeros(70))
    signal.signal(signal.SIGUSR2, lambda number, frame: last)

install()
cleanup(lambda: signal.signal(signal.SIGUSR2, signal.SIG_DFL))

#--- future-with-a-list
# holder: native code
# kind: native
future = torch.futures.Future()
future.set_result([accuse(torch.zeros(24)) for _ in range(3)])

#--- retained-by-a-post-accumulate-hook-closure
# holder: weight._backward_hooks[*]
# through: kept
# kind: hook
weight = torch.ones(12, requires_grad=True)

def watch():
    kept = []
    weight.register_hook(lambda gradient: kept.append(accuse(gradient.clone())))

watch()

def step():
    (weight * torch.randn(12)).sum().backward()

for _ in range(4):
    step()
