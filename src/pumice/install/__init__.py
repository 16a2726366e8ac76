"""What a cluster needs to run Pumice, and how it gets there.

    choices ──► manifests ──► applying ──► the cluster
                   │
                   └──► deploy/kustomize, deploy/helm (written by tools/deploy_files.py)

``manifests`` is the only place where they are made: definitions, accounts, rights, deployments, services, webhook
configurations. Each component has the rights it uses and no others (``rbac``); a test compares the two.
"""
