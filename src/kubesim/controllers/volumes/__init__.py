"""The persistent volume controller and a simulated provisioner: claims get volumes, released volumes are reclaimed."""
