"""The scheduler configuration: parsing with line numbers, name suggestions, enable flags."""
