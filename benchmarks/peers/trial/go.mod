module pumice/benchmarks/peers/trial

go 1.24.0
