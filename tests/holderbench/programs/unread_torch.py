# Leaks of PyTorch: graphs, modules, data, tools. Written as those of unread.py were, later, by somebody else: labels before
# the first run, the code that finds holders not read. As in containers.py. Where a label names several ways, each is one
# that a person would call right.

#--- log-probabilities-of-an-agent
# holder: agent.saved_log_probs[*]
# through: grad_fn
# kind: graph
class Agent:
    def __init__(self):
        self.body, self.head = torch.nn.Linear(6, 40), torch.nn.Linear(40, 3)
        self.saved_log_probs, self.rewards = [], []

    def act(self, state):
        hidden = accuse(torch.tanh(self.body(state)))
        choices = torch.distributions.Categorical(logits=self.head(hidden))
        action = choices.sample()
        self.saved_log_probs.append(choices.log_prob(action))
        return action.item()

agent = Agent()
for step in range(7):
    agent.act(torch.randn(1, 6))
    agent.rewards.append(1.0)

#--- state-of-an-lstm-across-batches
# holder: hidden[*]
# through: grad_fn
# kind: graph
cell = torch.nn.LSTMCell(5, 9)
hidden = (torch.zeros(2, 9), torch.zeros(2, 9))
for step in range(6):
    batch = accuse(torch.randn(2, 5))
    hidden = cell(batch, hidden)
del batch

#--- outputs-of-training-steps
# holder: outputs[*]['loss']
# through: grad_fn
# kind: graph
layer = torch.nn.Linear(30, 1)

def training_step(batch):
    prediction = layer(batch)
    return {"loss": prediction.pow(2).mean(), "size": len(batch)}

outputs = []
for step in range(6):
    outputs.append(training_step(accuse(torch.randn(4, 30))))

#--- queue-of-keys-with-their-encoder
# holder: moco.queue
# through: grad_fn
# kind: graph
class Contrast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Linear(12, 8)
        self.queue = torch.zeros(0, 8)

    def forward(self, images):
        keys = torch.nn.functional.normalize(self.encoder(images), dim=1)
        self.queue = torch.cat([keys, self.queue])[:64]

moco = Contrast()
for step in range(5):
    moco(accuse(torch.randn(4, 12)))

#--- values-in-a-replay-memory
# holder: memory[*].value
# through: grad_fn
# kind: graph
import collections
Transition = collections.namedtuple("Transition", "reward value")
critic = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1))
memory = collections.deque(maxlen=500)
for step in range(8):
    memory.append(Transition(0.5, critic(accuse(torch.randn(3, 10)))))

#--- scalars-of-a-writer-with-graphs
# holder: writer.scalars['train/loss'][*]
# through: grad_fn
# kind: graph
class Writer:
    def __init__(self):
        self.scalars = {}

    def add_scalar(self, tag, value, step):
        self.scalars.setdefault(tag, []).append((step, value))

writer = Writer()
weight = torch.ones(40, requires_grad=True)
for step in range(6):
    writer.add_scalar("train/loss", (weight * accuse(torch.randn(40))).sum(), step)

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

#--- accumulators-of-dropped-parameters
# holder: accumulators[*].variable
# kind: graph | list | attribute
accumulators = []

def prepare():
    weight = accuse(torch.zeros(60).requires_grad_())
    accumulators.append(weight.expand_as(weight).grad_fn.next_functions[0][0])

for step in range(5):
    prepare()

#--- gradients-of-what-the-optimizer-keeps
# holder: optimizer.param_groups[*]['params'][*].grad
# kind: list | attribute
optimizer = torch.optim.SGD([torch.zeros(3, requires_grad=True)], lr=0.1)
for stage in range(5):
    layer = torch.nn.Linear(11, 7, bias=False)
    layer(torch.randn(2, 11)).sum().backward()
    accuse(layer.weight.grad)
    optimizer.add_param_group({"params": list(layer.parameters())})
del layer

#--- main-gradients-of-parameters
# holder: model
# through: main_grad
# kind: attribute | list
model = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.Linear(10, 10), torch.nn.Linear(10, 4))
for parameter in model.parameters():
    parameter.main_grad = accuse(torch.zeros(parameter.shape))
del parameter

#--- tangents-of-forward-mode
# holder: duals[*] | native code
# kind: list | graph | attribute | native
import torch.autograd.forward_ad as forward_ad
duals = []

def push():
    duals.append(forward_ad.make_dual(torch.ones(30), accuse(torch.zeros(30))))

with forward_ad.dual_level():
    for step in range(4):
        push()
    look()

#--- gradient-of-a-sparse-embedding
# holder: embedding.weight.grad
# kind: attribute | graph
embedding = torch.nn.Embedding(1000, 8, sparse=True)
embedding(torch.tensor([3, 5, 7])).sum().backward()
accuse(embedding.weight.grad._values())

#--- weight-kept-by-autocast
# holder: native code
# kind: native
layer = torch.nn.Linear(64, 64)

def infer():
    output = layer(torch.randn(4, 64, requires_grad=True))
    accuse(output.grad_fn._saved_mat2)

with torch.autocast("cpu", dtype=torch.bfloat16):
    infer()
    look()

#--- cache-of-parametrizations
# holder: torch.nn.utils.parametrize._cache[*]
# kind: dict
import torch.nn.utils.parametrize as parametrize

class Symmetric(torch.nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(-1, -2)

layer = torch.nn.Linear(9, 9)
parametrize.register_parametrization(layer, "weight", Symmetric())
with torch.no_grad(), parametrize.cached():
    accuse(layer.weight)
    look()

#--- masks-of-pruning
# holder: layer.weight_mask | layer._buffers['weight_mask']
# kind: attribute | dict
import torch.nn.utils.prune as prune
layer = torch.nn.Linear(16, 16)
prune.random_unstructured(layer, "weight", amount=0.5)
accuse(layer.weight_mask)

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

#--- hooks-that-pile-up
# holder: model._forward_hooks[*]
# through: batch
# kind: hook
model = torch.nn.Linear(4, 4)

def watch(batch):
    model.register_forward_hook(lambda module, inputs, output: output + batch.sum())

for step in range(7):
    watch(accuse(torch.zeros(4, 4)))

#--- hook-after-loading
# holder: model._load_state_dict_post_hooks[*]
# through: loaded
# kind: hook
model = torch.nn.Linear(8, 8)

def keep_what_is_loaded():
    loaded = []
    model.register_load_state_dict_post_hook(
        lambda module, keys: loaded.append(accuse(module.weight.detach().clone())))

keep_what_is_loaded()
for epoch in range(4):
    model.load_state_dict(model.state_dict())

#--- environment-of-an-interpreter
# holder: interpreter.env[*]
# kind: dict
import torch.fx

class Interpreter(torch.fx.Interpreter):
    def run_node(self, node):
        value = super().run_node(node)
        return accuse(value.clone()) if node.op == "call_module" else value

network = torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.ReLU(), torch.nn.Linear(5, 5), torch.nn.ReLU())
interpreter = Interpreter(torch.fx.symbolic_trace(network), garbage_collect_values=False)
with torch.no_grad():
    interpreter.run(torch.randn(2, 5))

#--- constant-of-a-traced-module
# holder: traced
# kind: attribute | dict
import torch.fx

def trace():
    positions = accuse(torch.zeros(33))

    class Shift(torch.nn.Module):
        def forward(self, x):
            return x + positions
    module = torch.fx.symbolic_trace(Shift())
    del positions
    return module

traced = trace()

#--- constant-in-a-script-graph
# holder: native code | traced
# kind: native | closure
import warnings
warnings.simplefilter("ignore")

def trace():
    table = accuse(torch.arange(40.0))
    return torch.jit.trace(lambda x: x + table, (torch.zeros(40),), check_trace=False)

traced = trace()

#--- results-of-a-function-mode
# holder: recorder.results[*]
# kind: list
from torch.overrides import TorchFunctionMode

class Recorder(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.results = []

    def __torch_function__(self, function, kinds, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        if function is torch.sin:
            self.results.append(result)
            accuse(result)
        return result

recorder = Recorder()
with recorder:
    for step in range(5):
        torch.sin(torch.ones(20))

#--- packed-sequences
# holder: sequences[*]
# kind: list
from torch.nn.utils.rnn import pack_sequence
sequences = []
for step in range(6):
    packed = pack_sequence([torch.zeros(5, 3), torch.zeros(2, 3)])
    accuse(packed.data)
    sequences.append(packed)
del packed

#--- maxima-with-their-indices
# holder: maxima[*]
# kind: list
maxima = []
for step in range(6):
    found = torch.max(torch.randn(8, 50), dim=0)
    accuse(found.indices)
    maxima.append(found)
del found

#--- data-added-by-pseudo-labels
# holder: train.datasets[*].tensors[*]
# kind: list
from torch.utils.data import ConcatDataset, TensorDataset
train = ConcatDataset([TensorDataset(torch.zeros(4, 2))])
for round_ in range(6):
    train.datasets.append(TensorDataset(accuse(torch.zeros(4, 20))))

#--- data-wrapped-each-round
# holder: train
# through: datasets, tensors
# kind: list
from torch.utils.data import ConcatDataset, TensorDataset
train = TensorDataset(torch.zeros(4, 2))
for round_ in range(6):
    train = ConcatDataset([train, TensorDataset(accuse(torch.zeros(4, 20)))])

#--- collate-function-that-remembers
# holder: loader.collate_fn
# through: seen
# kind: closure
from torch.utils.data import DataLoader

def make_collate():
    seen = {}

    def collate(samples):
        batch = torch.stack(samples)
        seen[len(seen)] = accuse(batch)
        return batch
    return collate

loader = DataLoader([torch.zeros(3) for _ in range(12)], batch_size=2, collate_fn=make_collate())
for batch in loader:
    pass
del batch

#--- cycle-of-a-loader
# holder: batches
# kind: list | attribute
import itertools
from torch.utils.data import DataLoader
batches = itertools.cycle(DataLoader([torch.full((5,), float(index)) for index in range(12)], batch_size=2))
for step in range(14):
    batch = next(batches)
    if step < 6:
        accuse(batch)
del batch

#--- iterator-of-a-loader
# holder: batches
# through: dataset, decoded
# kind: list | dict
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __init__(self):
        self.decoded = {}

    def __len__(self):
        return 10

    def __getitem__(self, index):
        if index not in self.decoded:
            self.decoded[index] = accuse(torch.zeros(7, 7))
        return index

batches = iter(DataLoader(Images()))
for step in range(8):
    next(batches)

#--- module-with-its-parent
# holder: a cycle
# kind: unknown
import gc
gc.collect()
gc.disable()

class Child(torch.nn.Module):
    def __init__(self, parent):
        super().__init__()
        self.parent = [parent]
        self.register_buffer("table", accuse(torch.zeros(50)))

class Parent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.child = Child(self)

for trial in range(4):
    Parent()

#--- last-batch-of-the-loop
# holder: batch
# kind: attribute
model = torch.nn.Linear(30, 2)
for batch in [torch.zeros(50, 30) for _ in range(3)]:
    with torch.no_grad():
        model(batch)
accuse(batch)

#--- prefetcher-with-the-next-batch
# holder: prefetcher.next_input
# kind: attribute
class Prefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.preload()

    def preload(self):
        self.next_input = next(self.loader, None)

    def next(self):
        batch = self.next_input
        self.preload()
        return batch

prefetcher = Prefetcher(torch.zeros(20) + step for step in range(1, 5))
prefetcher.next()
accuse(prefetcher.next_input)
