"""Exact over processes and micro-batches: a score knows a batch by a few sums over its samples, and sums add up.

The scale of gradients, for a loss that was made with ``sync=True``, in each process:

============================================ ===================================================================
how gradients of processes are put together  what comes of it
============================================ ===================================================================
by their mean (DistributedDataParallel, and  the gradient of one process that holds all samples, exactly
all engines on top of it, and FSDP)
by their sum                                 the number of processes times that
============================================ ===================================================================

It does not matter whether the loss is called on a whole share, or linearized for its micro-batches. Without ``sync``
every process has the loss of its own samples, and DistributedDataParallel makes the mean of those losses' gradients,
which is the gradient of no score of all samples. A loss without ``sync`` that is linearized at a matrix which is
`summed` over processes has the gradients of all samples' loss: their sum is exact, their mean divided by the number of
processes.

Processes wait for each other. Each must call a loss with ``sync`` equally often; where one raises an error, the others
must be ended too, as torchrun and engines do, and not go on with their next batch.
"""

from scorewise.parallel.processes import summed
from scorewise.parallel.running import RunningLoss
from scorewise.parallel.steps import FirstPass, accumulate, first_pass
from scorewise.parallel.sums import LinearizedLoss, SummedLoss

__all__ = ["FirstPass", "LinearizedLoss", "RunningLoss", "SummedLoss", "accumulate", "first_pass", "summed"]
