"""Two CUDA graphs, the second in the first's pool, and replays. Other blocks come before, between and after them."""
import torch

weights = [torch.randn(300, 300, device="cuda") for _ in range(3)]
static = torch.randn(64, 300, device="cuda")


def forward():
    out = static
    for weight in weights:
        out = torch.relu(out @ weight)
    return out


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        forward()
torch.cuda.current_stream().wait_stream(side)
graphs, results = [], []
for _ in range(2):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=graphs[0].pool() if graphs else None):
        results.append(forward())
    graphs.append(graph)
    between = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    del between
for _ in range(3):
    for graph in graphs:
        graph.replay()
    after = results[0] + results[1]
results.clear()
graphs.pop().reset()
last = torch.empty(700_000, dtype=torch.uint8, device="cuda")
