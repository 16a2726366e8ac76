"""Replace an engine by another one that continues where it stopped."""
