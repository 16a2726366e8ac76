"""The manifests of an installation of Pumice, and how they are applied to a cluster and removed from it.

    install_options ──► manifests ──► apply ──► the cluster
                           │
                           └──► deploy/kustomize, deploy/helm (written by tools/deploy_files.py)

Only ``manifests`` creates these objects: CRDs, service accounts, RBAC rules, deployments, services and webhook
configurations. Each component has exactly the permissions that it uses (``rbac``); a test compares the two.
"""
