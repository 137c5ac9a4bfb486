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

#--- main-gradients-of-parameters
# holder: model
# through: main_grad
# kind: attribute | list
model = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.Linear(10, 10), torch.nn.Linear(10, 4))
for parameter in model.parameters():
    parameter.main_grad = accuse(torch.zeros(parameter.shape))
del parameter

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

#--- constant-in-a-script-graph
# holder: native code | traced
# kind: native | closure
import warnings
warnings.simplefilter("ignore")

def trace():
    table = accuse(torch.arange(40.0))
    return torch.jit.trace(lambda x: x + table, (torch.zeros(40),), check_trace=False)

traced = trace()

#--- data-wrapped-each-round
# holder: train
# through: datasets, tensors
# kind: list
from torch.utils.data import ConcatDataset, TensorDataset
train = TensorDataset(torch.zeros(4, 2))
for round_ in range(6):
    train = ConcatDataset([train, TensorDataset(accuse(torch.zeros(4, 20)))])
