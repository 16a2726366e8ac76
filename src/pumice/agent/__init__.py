"""The node agent: this machine as a node of a cluster, on which containers are processes.

The agent (``node_agent.py``) is a client of the API like any other. It registers the machine as a Node, renews its
Lease, and follows the pods that are bound to it. Each pod gets a folder with a plan and a shim (``shim/``), a small
process that runs the pod's containers and writes down how they end. The agent reads these files and reports them, so
it can be killed and come back at any time, and the pods do not notice.

```
 pods of this node ──► pod_worker.py ──► pod_plan.py ──► plan.json ──► shim ──► processes
                            ▲                                            │
        status, Events ◄────┴──────────── pod_status.py ◄── state.json ◄─┘ ──► logs ──► log_server.py
```
"""
