"""The scheduler configuration: parsing with line numbers, names, enable flags."""
