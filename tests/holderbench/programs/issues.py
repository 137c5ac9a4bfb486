# Leaks in the style of public issues; each name says which issue. Labels follow the threads' results, and were written
# before a run. Labels as in containers.py; "a | b": both are right.

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

#--- future-with-a-list
# holder: native code
# kind: native
future = torch.futures.Future()
future.set_result([accuse(torch.zeros(24)) for _ in range(3)])
