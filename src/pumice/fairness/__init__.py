"""Who is owed what: the share tree, the policies that key it, the entitlements.

One tree serves every policy: root, queues of any depth, namespaces, jobs. A policy is the way in which a
node's key is computed. Demand, weights, limits and holdings come from the model; out go each node's
entitlement and, pick by pick, the job to serve next. A placement or a release changes one path from a
leaf to the root; the entitlements are solved in bulk, and only when something moved that can move them.

Imports ``model`` only.
"""
