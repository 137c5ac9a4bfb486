# Leaks in the style of public issues, which each name says; labels from what the threads found, written before a run. As
# containers.py says; "a | b" where both are right.

#--- tntorch-19-history-of-losses
# holder: trainer.loss_history[*]
# through: grad_fn
# kind: graph
class Trainer:
    def __init__(self):
        self.weight = torch.ones(30, requires_grad=True)
        self.loss_history = []

    def step(self):
        batch = accuse(torch.randn(30))
        self.loss_history.append((self.weight * batch).sum())

trainer = Trainer()
for _ in range(6):
    trainer.step()

#--- pytorch-1346-gradients-with-history
# holder: weight.grad
# through: grad_fn
# kind: graph
import warnings
warnings.simplefilter("ignore")
weight = torch.ones(30, requires_grad=True)

def step():
    batch = accuse(torch.randn(30))
    (weight * batch).pow(2).sum().backward(create_graph=True)

for _ in range(5):
    step()

#--- gradcam-88-gradients-in-a-backward-hook
# holder: cam.gradients[*]
# kind: list
class ActivationsAndGradients:
    def __init__(self, layer):
        self.gradients = []
        self.handle = layer.register_full_backward_hook(self.save_gradient)

    def save_gradient(self, module, inputs, outputs):
        self.gradients.append(accuse(outputs[0].clone()))

layer = torch.nn.Linear(20, 30)
cam = ActivationsAndGradients(layer)

def explain():
    layer(torch.randn(7, 20)).sum().backward()

for _ in range(5):
    explain()

#--- pytorch-46386-hook-with-self
# holder: a cycle
# kind: unknown
import gc
gc.disable()

class Leaky(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(20, 30)
        accuse(self.body.weight)

        def hook(module, inputs, output):
            self(inputs)
        self.register_forward_hook(hook)

for _ in range(4):
    net = Leaky()
del net

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

#--- kimi-117-cache-of-getitem
# holder: AudioDataset.__getitem__
# kind: cache
import functools

class AudioDataset:
    @functools.lru_cache(maxsize=None)
    def __getitem__(self, place):
        return {"audio": accuse(torch.zeros(500)), "label": place}

dataset = AudioDataset()

def epoch():
    for place in range(6):
        dataset[place]

epoch()

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

#--- pytorch-27600-the-last-error-of-a-notebook
# holder: shell.last_error
# through: forward(), activation
# kind: traceback
class Shell:
    last_error = None

shell = Shell()

def forward(x):
    activation = accuse(x * 2)
    raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")

def cell():
    forward(torch.zeros(300))

try:
    cell()
except RuntimeError as error:
    shell.last_error = error

#--- pytorch-10348-errors-of-trials
# holder: trials[*]['error']
# through: fit(), batch
# kind: traceback
trials = []

def fit(rate):
    batch = accuse(torch.zeros(100))
    if rate > 0:
        raise FloatingPointError("loss is nan")

for rate in (1, 2, 3, 4):
    try:
        fit(rate)
    except FloatingPointError as error:
        trials.append({"rate": rate, "error": error})

#--- torchmetrics-2492-list-state
# holder: metric.predictions[*]
# kind: list
class Metric(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self._defaults = {"predictions": []}
        self.predictions = []

    def update(self, values):
        self.predictions.append(values)

metric = Metric()

def validate():
    for _ in range(5):
        metric.update(accuse(torch.randn(60)))

validate()

#--- lightning-4098-cache-of-a-metric
# holder: metric._cache[*]
# through: grad_fn
# kind: graph
class Metric:
    def __init__(self):
        self._cache = {}

metric = Metric()
weight = torch.ones(20, requires_grad=True)

def step(number):
    batch = accuse(torch.randn(20))
    metric._cache[f"total_{number}"] = (weight * batch).mean()

for number in range(5):
    step(number)

#--- geo-582-metrics-by-stage
# holder: state.metrics['val'].targets[*]
# kind: list
class Iou:
    def __init__(self):
        self.targets = []

class State:
    metrics = None

state = State()
state.metrics = {"train": Iou(), "val": Iou()}

def validate():
    for _ in range(6):
        state.metrics["val"].targets.append(accuse(torch.zeros(90)))

validate()

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

#--- yanmtt-39-checkpoint-after-loading
# holder: checkpoint_dict['model'][*]
# kind: dict
checkpoint_dict = {"model": {f"layer{place}.weight": accuse(torch.zeros(100)) for place in range(5)},
                   "optimizer": {}, "step": 7}
model = torch.nn.Linear(10, 10)

#--- transformers-22801-forward-replaced
# holder: a cycle
# kind: unknown
import functools
import gc
gc.disable()

def add_hook(module):
    old = module.forward

    @functools.wraps(old)
    def new_forward(*arguments):
        return old(*arguments)
    module.forward = new_forward

def load():
    model = torch.nn.Linear(30, 30)
    accuse(model.weight)
    add_hook(model)

for _ in range(4):
    load()

#--- mellea-544-outputs-with-their-keys
# holder: session.context[*]._meta['hf_output'].past_key_values[*][*]
# kind: list
class Output:
    pass

class Thunk:
    def __init__(self):
        self._meta = {}

class Session:
    def __init__(self):
        self.context = []

    def instruct(self):
        output, thunk = Output(), Thunk()
        output.past_key_values = tuple((accuse(torch.zeros(50)), accuse(torch.zeros(50))) for _ in range(2))
        thunk._meta["hf_output"] = output
        self.context.append(thunk)

session = Session()
for _ in range(3):
    session.instruct()

#--- sotodlib-884-futures-that-are-done
# holder: futures[*]._result
# kind: list
import concurrent.futures

def load(place):
    return accuse(torch.zeros(100))

with concurrent.futures.ThreadPoolExecutor(2) as executor:
    futures = [executor.submit(load, place) for place in range(6)]
    concurrent.futures.wait(futures)
cleanup(futures.clear)

#--- ray-49360-threads-that-wait
# holder: actor().result
# kind: thread
import threading
ready, go_on = threading.Barrier(4), threading.Event()

def actor():
    result = accuse(torch.zeros(100))
    ready.wait()
    go_on.wait()

def start():
    for _ in range(3):
        threading.Thread(target=actor, daemon=True).start()

start()
ready.wait()
look()
go_on.set()

#--- lightning-callback-metrics
# holder: trainer.callback_metrics[*]
# through: grad_fn
# kind: graph
class Trainer:
    def __init__(self):
        self.callback_metrics = {}

trainer = Trainer()
weight = torch.ones(20, requires_grad=True)

def step(number):
    activation = accuse((weight * 2).exp())
    trainer.callback_metrics[f"loss/{number}"] = activation.sum().log() + (activation ** 2).sum()

for number in range(4):
    step(number)

#--- replay-memory-of-transitions
# holder: memory.buffer[*].state
# kind: list
import collections
Transition = collections.namedtuple("Transition", "state action reward")

class ReplayMemory:
    def __init__(self):
        self.buffer = collections.deque(maxlen=100_000)

    def push(self, *values):
        self.buffer.append(Transition(*values))

memory = ReplayMemory()

def act():
    for _ in range(6):
        memory.push(accuse(torch.zeros(84)), 0, 1.0)

act()

#--- recurrent-state-kept-between-batches
# holder: model.hidden
# through: grad_fn
# kind: graph
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.Linear(20, 20)
        self.hidden = torch.zeros(1, 20)

    def forward(self, x):
        self.hidden = torch.tanh(self.cell(accuse(x + self.hidden)))
        return self.hidden

model = Model()

def train():
    for _ in range(6):
        model(torch.randn(1, 20))

train()

#--- keys-and-values-in-the-layers
# holder: model.layers[*].cache_k | model.layers.*.cache_k
# kind: attribute | list
class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cache_k = accuse(torch.zeros(4, 16))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Attention() for _ in range(4))

model = Model()

#--- style-losses-with-targets
# holder: losses[*].target
# through: grad_fn
# kind: graph
class ContentLoss:
    def __init__(self, target):
        self.target = target

losses = []
weight = torch.ones(40, requires_grad=True)

def build():
    for _ in range(5):
        image = accuse(torch.randn(40))
        losses.append(ContentLoss(weight * image))

build()

#--- partial-hook-with-a-store
# holder: model.fc._forward_hooks[*]
# through: store
# kind: hook
import functools

class Store:
    def __init__(self):
        self.values = []

def save(store, module, inputs, output):
    store.values.append(accuse(output.detach().clone()))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

model = Model()

def instrument():
    store = Store()
    model.fc.register_forward_hook(lambda *arguments: save(store, *arguments))

def run():
    for _ in range(5):
        model.fc(torch.randn(3, 8))

instrument()
run()

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

#--- recursive-inner-function
# holder: a cycle
# kind: unknown
import gc
gc.disable()

def render():
    image = accuse(torch.zeros(300))

    def trace(depth):
        return image if depth == 0 else trace(depth - 1)
    trace(3)

for _ in range(4):
    render()

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

#--- outputs-with-hidden-states
# holder: all_outputs[*].hidden_states[*]
# kind: list
import dataclasses
import typing

@dataclasses.dataclass
class ModelOutput:
    logits: typing.Any
    hidden_states: typing.Tuple

all_outputs = []

def predict():
    all_outputs.append(ModelOutput(None, tuple(accuse(torch.zeros(30)) for _ in range(3))))

for _ in range(4):
    predict()

#--- notebook-outputs
# holder: Out[*]
# kind: dict
Out = {}

def cell(number):
    Out[number] = accuse(torch.zeros(50))

for number in range(5):
    cell(number)

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

#--- context-variable
# holder: request.get()
# kind: attribute
import contextvars
request = contextvars.ContextVar("request")

def begin():
    request.set(accuse(torch.zeros(50)))

begin()
cleanup(lambda: request.set(None))

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

#--- module-getattr-that-answers-anything
# holder: wrapper.inner.stash[*]
# kind: list
class Anything:
    def __init__(self):
        object.__setattr__(self, "stash", [])

    def __getattr__(self, name):
        return Anything()

class Wrapper:
    pass

wrapper = Wrapper()
wrapper.inner = Anything()

def fill():
    for _ in range(5):
        wrapper.inner.stash.append(accuse(torch.zeros(20)))

fill()

#--- two-lists-of-one-site
# holder: first[*]
# kind: list
first, second = [], []

def make(place):
    (first if place % 3 else second).append(accuse(torch.zeros(20)))

for place in range(9):
    make(place)

#--- future-with-a-list
# holder: native code
# kind: native
future = torch.futures.Future()
future.set_result([accuse(torch.zeros(24)) for _ in range(3)])

#--- class-of-a-finished-experiment
# holder: experiments[*].best
# kind: attribute | list
experiments = []

def run(number):
    kind = type(f"Experiment{number}", (), {"best": accuse(torch.zeros(33))})
    experiments.append(kind)

for number in range(4):
    run(number)

#--- weights-averaged-by-name
# holder: ema.shadow[*]
# kind: dict
class Ema:
    def __init__(self, model):
        self.shadow = {name: accuse(value.detach().clone()) for name, value in model.named_parameters()}

def build():
    return Ema(torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Linear(6, 7)))

ema = build()

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
