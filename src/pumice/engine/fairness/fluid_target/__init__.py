"""The divisible H-DRF target, solved exactly and without simulation."""
