module pumice/benchmarks/peers/kubeobjects

go 1.24.0

require (
	k8s.io/api v0.34.1
	k8s.io/apimachinery v0.34.1
	pumice/benchmarks/peers/trial v0.0.0
)

replace pumice/benchmarks/peers/trial => ../trial
